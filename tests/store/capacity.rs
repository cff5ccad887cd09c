//! More objects than memory holds, more than the store holds, and one larger than most.

use testkit::{Tidegate, eventually, own_memory_kib};

use crate::{get, get_all, sized_origin, targets};

#[test]
fn what_does_not_fit_in_memory_comes_from_the_store() {
    let origin = sized_origin();
    let tidegate = Tidegate::reverse(&origin).memory("1MiB").store("128MiB").start();
    let objects = [targets(300, 60_000), targets(300, 3000), targets(8, 1_500_000)].concat();
    assert_eq!(get_all(&tidegate, &objects), 0);
    assert_eq!((get_all(&tidegate, &objects), origin.count()), (objects.len(), objects.len()));
}

#[test]
fn ten_thousand_objects_more_than_the_store_holds() {
    let origin = sized_origin();
    let tidegate = Tidegate::reverse(&origin).memory("1MiB").store("96MiB").start();
    // 96 MiB hold at most 7700 of these: ten thousand more than that come.
    let objects = targets(17_700, 13_000);
    std::thread::scope(|scope| {
        for part in objects.chunks(objects.len().div_ceil(4)) {
            let tidegate = &tidegate;
            scope.spawn(move || get_all(tidegate, part));
        }
    });
    // At most 43 of 100 can be there. Reclaim that is behind may cost some, and looking must not change it.
    let sample: Vec<_> = objects.iter().rev().step_by(97).collect();
    let kept = sample.iter().filter(|target| is_kept(&tidegate, target)).count();
    assert!(kept * 4 > sample.len(), "{kept} of {} are kept", sample.len());
    eventually("a new object finds room", || get(&tidegate, "/new-13000").then_some(()));
    assert!(tidegate.metrics().sum("tidegate_store_objects") <= 7700.0);
    assert_eq!(tidegate.metrics().sum("tidegate_checksum_failures_total"), 0.0);
    // A full store does not write what nobody asked for before, and says so by this word.
    let declined = tidegate.metrics().get("tidegate_store_declined_total{reason=\"not-admitted\"}");
    assert!(declined > 1000.0, "{declined} were not admitted");
}

/// Whether the cache has it, without letting it ask the origin.
fn is_kept(tidegate: &Tidegate, target: &str) -> bool {
    let ask = testkit::Ask::get(target).field("Cache-Control", "only-if-cached");
    let response = tidegate.ask(ask);
    if response.status() == 200 {
        testkit::Pattern::of(target).compare(&response.body, 0);
    }
    response.status() == 200
}

#[test]
fn large_objects_beyond_the_store_give_way_too() {
    let origin = sized_origin();
    let tidegate = Tidegate::reverse(&origin).memory("1MiB").store("96MiB").start();
    get_all(&tidegate, &targets(60, 5_000_000));
    // While reclaim is behind, the store declines; it comes to terms with a flood in the end.
    eventually("a new object finds room", || get(&tidegate, "/new-5000000").then_some(()));
}

#[test]
fn an_object_larger_than_the_store_is_passed_on() {
    let origin = sized_origin();
    let tidegate = Tidegate::reverse(&origin).memory("1MiB").store("64MiB").start();
    get(&tidegate, "/small-1000");
    for _ in 0..2 {
        assert!(!get(&tidegate, "/big-100000000"));
    }
    assert!(get(&tidegate, "/after-1000") || get(&tidegate, "/after-1000"));
}

#[test]
fn an_object_of_two_gib() {
    let origin = sized_origin();
    let tidegate = Tidegate::reverse(&origin).memory("8MiB").store("3GiB").start();
    let target = format!("/huge-{}", 2_u64 << 30);
    let before = own_memory_kib(tidegate.pid());
    assert!(!get(&tidegate, &target));
    assert!(get(&tidegate, &target));
    let grown = own_memory_kib(tidegate.pid()).saturating_sub(before);
    assert!(grown < 256 * 1024, "grew by {grown} KiB");
    assert_eq!(origin.count(), 1);
    // A part from behind the 32-bit border.
    let first = (1_u64 << 31) - 5000;
    let response =
        tidegate.ask(testkit::Ask::get(&target).field("Range", &format!("bytes={first}-"))).expect(206);
    testkit::Pattern::of(&target).compare(&response.body, first);
}
