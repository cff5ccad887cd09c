//! Flipped bits: in a head, in a body, in a contents table, anywhere. The answer is right or fetched anew.

use testkit::{Noise, Origin, Pattern, Reply, Tidegate, eventually, find_in_file, flip_bit};

use crate::{get, get_all, sized_origin, targets};

/// A stopped cache that holds these objects and nothing of them in memory, and that does not scrub: the tests here say
/// what the first reader meets.
fn stopped_with(origin: &Origin, objects: &[String]) -> Tidegate {
    stopped_scrubbing(origin, objects, "off")
}

/// The same with scrubbing at this pace.
fn stopped_scrubbing(origin: &Origin, objects: &[String], pace: &str) -> Tidegate {
    let toml = format!("[store]\nscrub = \"{pace}\"");
    let mut tidegate = Tidegate::reverse(origin).memory("1MiB").store("64MiB").toml(&toml).start();
    get_all(&tidegate, objects);
    tidegate.stop();
    tidegate
}

/// Flips one bit at each place of `needle` on the device; returns where the first one is.
#[track_caller]
fn damage(tidegate: &Tidegate, needle: &[u8], inside: u64) -> u64 {
    let places = find_in_file(&tidegate.store_path(), needle);
    assert!(!places.is_empty(), "the bytes are not on the device");
    places.iter().for_each(|place| flip_bit(&tidegate.store_path(), place + inside));
    places[0] + inside
}

/// The log names the device and a place just before the damaged byte: where the record or the extent begins.
#[track_caller]
fn expect_told(tidegate: &Tidegate, damaged: u64, within: u64) {
    let path = tidegate.store_path().display().to_string();
    let told = tidegate.stderr();
    let lines = told.lines().filter(|line| line.contains("are damaged") && line.contains(&path));
    let offsets: Vec<u64> = lines.filter_map(offset).collect();
    let near = |&offset: &u64| (offset..offset + within).contains(&damaged);
    assert!(offsets.iter().any(near), "byte {damaged} is not told: {told}");
}

/// The offset that a log line names.
fn offset(line: &str) -> Option<u64> {
    let rest = &line[line.find("offset")? + "offset".len()..];
    let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn wait_for_a_pass(tidegate: &Tidegate) {
    let passes = || tidegate.metrics().sum("tidegate_store_scrub_passes_total");
    eventually("scrubbing comes round", || (passes() >= 1.0).then_some(()));
}

/// Nobody asks for them, and they are found: a head, an inline body, an extent; each is told with its place, none is
/// served, and what is not damaged stays.
#[test]
fn damage_is_found_by_scrubbing() {
    let origin = sized_origin();
    let objects = [targets(40, 5000), targets(4, 3_000_000)].concat();
    let mut tidegate = stopped_scrubbing(&origin, &objects, "1GiB");
    let head = damage(&tidegate, format!("head-of-{}-", objects[0]).as_bytes(), 3);
    let body = damage(&tidegate, &Pattern::of(&objects[1]).bytes(0, 32), 2500);
    let extent = damage(&tidegate, &Pattern::of(&objects[40]).bytes(2_500_000, 32), 5);
    tidegate.restart();
    wait_for_a_pass(&tidegate);
    assert_eq!(tidegate.metrics().sum("tidegate_checksum_failures_total"), 3.0);
    eventually("all is told", || (tidegate.stderr().matches("are damaged").count() == 3).then_some(()));
    for (damaged, within) in [(head, 8192), (body, 8192), (extent, 1 << 20)] {
        expect_told(&tidegate, damaged, within);
    }
    let missed: Vec<&String> = objects.iter().filter(|target| !get(&tidegate, target)).collect();
    assert_eq!(missed, [&objects[0], &objects[1], &objects[40]]);
    assert!(tidegate.metrics().sum("tidegate_store_scrubbed_bytes_total") >= 12_000_000.0);
}

/// The head of a large object may be in memory when its body goes bad on the device.
#[test]
fn damage_that_scrubbing_finds_leaves_memory_too() {
    let origin = sized_origin();
    let target = "/large-3000000".to_owned();
    let toml = "[store]\nscrub = \"1GiB\"";
    let mut tidegate = Tidegate::reverse(&origin).memory("16MiB").store("64MiB").toml(toml).start();
    get_all(&tidegate, std::slice::from_ref(&target));
    tidegate.stop();
    let extent = damage(&tidegate, &Pattern::of(&target).bytes(2_500_000, 32), 5);
    tidegate.restart();
    // The beginning is good, and brings the head into memory.
    let part = tidegate.ask(testkit::Ask::get(&target).field("Range", "bytes=0-99"));
    Pattern::of(&target).compare(&part.expect(206).body, 0);
    wait_for_a_pass(&tidegate);
    eventually("it is told", || tidegate.stderr().contains("are damaged").then_some(()));
    expect_told(&tidegate, extent, 1 << 20);
    assert!(!get(&tidegate, &target), "a damaged body is served from memory's word");
}

#[test]
fn a_damaged_contents_table_is_found_by_scrubbing() {
    let origin = sized_origin();
    let objects = targets(2000, 13_000);
    let mut tidegate = stopped_scrubbing(&origin, &objects, "1GiB");
    // The end of the first segment (they are of 4 MiB here): the last block is the trailer, before it ends the second
    // copy of the table.
    let damaged = (8 << 20) - 4096 - 5000;
    flip_bit(&tidegate.store_path(), damaged);
    tidegate.restart();
    wait_for_a_pass(&tidegate);
    eventually("it is told", || tidegate.stderr().contains("contents-table-copy").then_some(()));
    expect_told(&tidegate, damaged, 1 << 20);
    assert_eq!(get_all(&tidegate, &objects), objects.len(), "the other copy is good");
}

/// The damaged object is fetched anew, its neighbour is not, and the failure is counted.
#[track_caller]
fn expect_only_the_first_refetched(origin: &Origin, tidegate: &mut Tidegate, objects: &[String]) {
    tidegate.restart();
    let before = origin.count();
    assert!(!get(tidegate, &objects[0]), "served from a damaged place");
    assert!(get(tidegate, &objects[1]), "an undamaged neighbour was lost");
    assert_eq!(origin.count(), before + 1);
    assert!(tidegate.metrics().sum("tidegate_checksum_failures_total") >= 1.0);
    assert!(get(tidegate, &objects[0]), "the new copy is kept");
}

#[test]
fn a_bit_in_a_small_body() {
    let origin = sized_origin();
    let objects = targets(2, 5000);
    let mut tidegate = stopped_with(&origin, &objects);
    let damaged = damage(&tidegate, &Pattern::of(&objects[0]).bytes(0, 32), 2500);
    expect_only_the_first_refetched(&origin, &mut tidegate, &objects);
    expect_told(&tidegate, damaged, 8192);
}

#[test]
fn a_bit_in_a_large_body() {
    let origin = sized_origin();
    let objects = targets(2, 3_000_000);
    let mut tidegate = stopped_with(&origin, &objects);
    let damaged = damage(&tidegate, &Pattern::of(&objects[0]).bytes(2_500_000, 32), 5);
    tidegate.restart();
    right_or_broken(&tidegate, &objects[0]);
    expect_told(&tidegate, damaged, 1 << 20);
    assert_eq!(get_all(&tidegate, &objects), 1, "an undamaged neighbour was lost");
    assert!(tidegate.metrics().sum("tidegate_checksum_failures_total") >= 1.0);
    assert_eq!(get_all(&tidegate, &objects), 2, "the new copy is kept");
}

/// A 304 gives an old body a new head, and with it the word of this process: the body is checked first.
#[test]
fn a_bit_in_a_large_body_that_is_validated() {
    let body = Pattern(77).bytes(0, 300_000);
    let sent = body.clone();
    let origin = Origin::answering(move |request| {
        let fresh = if request.head.has("if-none-match") { Reply::not_modified() } else { Reply::ok(&sent) };
        fresh.field("ETag", "\"v1\"").field("Cache-Control", "max-age=3600")
    });
    let toml = "[store]\nscrub = \"off\"";
    let mut tidegate = Tidegate::reverse(&origin).memory("1MiB").store("64MiB").toml(toml).start();
    assert_eq!(tidegate.get("/").expect(200).body, body);
    tidegate.stop();
    damage(&tidegate, &body[100_000..100_032], 5);
    tidegate.restart();
    let asked = testkit::Ask::get("/").field("Cache-Control", "no-cache");
    assert_eq!(tidegate.ask(asked).expect(200).body, body, "validated, found damaged, and fetched");
    for _ in 0..2 {
        assert_eq!(tidegate.get("/").expect(200).body, body);
    }
    assert!(tidegate.metrics().sum("tidegate_checksum_failures_total") >= 1.0);
}

/// A large body is checked while it is sent: damage far behind its head may break the transfer, and must not be sent.
#[track_caller]
fn right_or_broken(tidegate: &Tidegate, target: &str) {
    let mut client = tidegate.client();
    client.send(testkit::Ask::get(target).bytes());
    let head = client.head();
    assert_eq!(head.status(), 200);
    crate::right_until_broken(&mut client, target);
}

#[test]
fn a_bit_in_a_head() {
    let origin = sized_origin();
    let objects = targets(2, 5000);
    let mut tidegate = stopped_with(&origin, &objects);
    damage(&tidegate, format!("head-of-{}-", objects[0]).as_bytes(), 3);
    expect_only_the_first_refetched(&origin, &mut tidegate, &objects);
}

#[test]
fn a_bit_in_the_head_of_a_large_object() {
    let origin = sized_origin();
    let objects = targets(2, 3_000_000);
    let mut tidegate = stopped_with(&origin, &objects);
    damage(&tidegate, format!("head-of-{}-", objects[0]).as_bytes(), 3);
    expect_only_the_first_refetched(&origin, &mut tidegate, &objects);
}

const SEGMENT: u64 = 16 << 20;

#[test]
fn bits_in_the_contents_tables() {
    let origin = sized_origin();
    let objects = targets(2000, 13_000);
    let mut tidegate = stopped_with(&origin, &objects);
    // A sealed segment ends with its contents table and the trailer that points at it.
    for end in 2..=4 {
        for back in [10, 100, 2000, 4090, 5000] {
            flip_bit(&tidegate.store_path(), end * SEGMENT - back);
        }
    }
    tidegate.restart();
    get_all(&tidegate, &objects);
}

#[test]
fn bits_in_one_superblock_copy_and_both_checkpoints_in_turn() {
    let origin = sized_origin();
    let objects = targets(50, 5000);
    let mut tidegate = stopped_with(&origin, &objects);
    for place in [16 << 10, 20 << 10, 1 << 20, 8 << 20] {
        flip_bit(&tidegate.store_path(), place + 16);
        tidegate.restart();
        get_all(&tidegate, &objects);
        tidegate.stop();
    }
}

#[test]
fn bits_anywhere_never_make_a_wrong_answer() {
    let origin = sized_origin();
    let objects = [targets(300, 700), targets(300, 20_000), targets(6, 2_000_000)].concat();
    let mut tidegate = stopped_with(&origin, &objects);
    let mut noise = Noise::new(4711);
    // Slot 0 with the superblocks is left out: losing all of it is "not our device", another case.
    (0..3000).for_each(|_| flip_bit(&tidegate.store_path(), SEGMENT + noise.below(3 * SEGMENT)));
    tidegate.restart();
    objects.iter().for_each(|target| right_or_broken(&tidegate, target));
    assert!(origin.count() > objects.len(), "three thousand flipped bits hit nothing");
    get_all(&tidegate, &objects);
    assert_eq!(get_all(&tidegate, &objects), objects.len(), "what was fetched anew is kept");
}

#[test]
fn a_store_whose_file_was_cut_is_refused_with_a_reason() {
    let origin = sized_origin();
    let tidegate = stopped_with(&origin, &targets(10, 5000));
    let path = tidegate.store_path();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(40 << 20).unwrap();
    let spec = format!("{}", path.display());
    let run = Tidegate::reverse(&origin).store_at(&spec).refused();
    assert!(run.code == 1 || run.code == 2, "{run:?}");
    assert!(run.stderr.contains(&spec), "{run:?}");
}
