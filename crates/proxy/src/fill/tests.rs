#![allow(clippy::unwrap_used)]
use super::*;
use crate::collapse::{Collapse, Role};
use semantics::{Policy, Times, UnixSeconds};
use std::future::Future;
use sys::aligned::AlignedBuffer;

fn promised() -> Arc<Promised> {
    let now = UnixSeconds(1_000_000);
    let times = Times { requested_at: now, received_at: now };
    let head = Head::from_text(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=9\r\n", times, &Policy::default());
    Arc::new(Promised {
        head: Arc::new(head.unwrap()),
        key: b"k".as_slice().into(),
        hash: KeyHash(1),
        variants: None,
    })
}

fn on_runtime(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build_local(Default::default()).unwrap();
    runtime.block_on(work);
}

fn stream(decision: Decision) -> Follower {
    match decision {
        Decision::Stream(follower) => follower,
        _ => panic!("the fill does not stream"),
    }
}

#[test]
fn states_are_walked_in_order_and_a_follower_reads_all() {
    on_runtime(async {
        let owner = Fill::start(KeyHash(1), KeyHash(1), Asked::Whole);
        let waiter = tokio::task::spawn_local({
            let fill = Arc::clone(owner.fill());
            async move { stream(fill.decided(None).await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished(), "Ready decides nothing");
        let first = owner.storable(promised(), 0, Some(6));
        let mut late = waiter.await.unwrap();
        assert!(matches!(first.at(), At::NotYet));

        let (mut writer, reader) = AlignedBuffer::new(4096).unwrap().split();
        owner.piece(0, reader);
        writer.put(b"abc");
        owner.progressed();
        let At::Memory(reader, range) = late.more().await else { panic!("bytes are there") };
        assert_eq!(&reader.filled()[range], b"abc");
        late.advance(3);
        assert!(matches!(late.at(), At::NotYet));
        writer.put(b"def");
        let At::Memory(reader, range) = late.at() else { panic!("bytes are there") };
        assert_eq!(&reader.filled()[range], b"def");
        late.advance(3);
        owner.ended(6);
        assert!(matches!(late.at(), At::End));
        owner.done(None);
        assert!(matches!(late.at(), At::End), "who follows still may after Done");
    });
}

#[test]
fn a_dead_owner_fails_the_fill_and_wakes_all() {
    on_runtime(async {
        let owner = Fill::start(KeyHash(1), KeyHash(1), Asked::Whole);
        let fill = Arc::clone(owner.fill());
        let waiter = tokio::task::spawn_local({
            let fill = Arc::clone(&fill);
            async move { matches!(fill.decided(None).await, Decision::Failed("owner-gone")) }
        });
        tokio::task::yield_now().await;
        drop(owner);
        assert!(waiter.await.unwrap());

        let owner = Fill::start(KeyHash(1), KeyHash(1), Asked::Whole);
        let follower = owner.storable(promised(), 0, Some(6));
        drop(owner);
        assert!(matches!(follower.at(), At::Broken(_)), "a short body never looks complete");
    });
}

#[test]
fn what_broke_off_has_no_length_and_is_read_as_far_as_it_came() {
    on_runtime(async {
        let owner = Fill::start(KeyHash(1), KeyHash(1), Asked::Whole);
        let mut follower = owner.storable(promised(), 0, None);
        let (mut writer, reader) = AlignedBuffer::new(4096).unwrap().split();
        owner.piece(0, reader);
        writer.put(b"abc");
        owner.fail("origin-ended-early");
        assert_eq!(follower.length(), None, "a length would make the short body look complete");
        let At::Memory(reader, range) = follower.at() else { panic!("bytes are there") };
        assert_eq!(&reader.filled()[range], b"abc");
        follower.advance(3);
        assert!(matches!(follower.at(), At::Broken("origin-ended-early")));
    });
}

#[test]
fn a_release_sends_the_waiters_away_at_once() {
    on_runtime(async {
        let owner = Fill::start(KeyHash(1), KeyHash(1), Asked::Whole);
        let fill = Arc::clone(owner.fill());
        owner.release("no-store");
        assert!(matches!(fill.decided(None).await, Decision::Released("no-store")));
    });
}

#[test]
fn what_the_store_gave_up_on_is_kept_for_the_slowest_follower_only() {
    on_runtime(async {
        let owner = Fill::start(KeyHash(1), KeyHash(1), Asked::Whole);
        let mut fast = owner.storable(promised(), 0, Some(12));
        let mut slow = stream(owner.fill().decided(None).await);
        owner.give_up_keeping();
        for start in [0, 4, 8] {
            let (mut writer, reader) = AlignedBuffer::new(4).unwrap().split();
            owner.piece(start, reader);
            writer.put(&[7; 4]);
            writer.finish();
        }
        fast.advance(12);
        assert_eq!(owner.pieces_in_memory(), 3, "the slow one has read nothing");
        slow.advance(5);
        assert_eq!(owner.pieces_in_memory(), 2);
        assert!(
            matches!(owner.fill().decided(None).await, Decision::Released(_)),
            "its first bytes are gone"
        );
        drop(slow);
        assert_eq!(owner.pieces_in_memory(), 1);
    });
}

#[test]
fn the_table_holds_one_owner_a_key_and_forgets_what_is_purged() {
    let table = Collapse::new();
    let (hash, primary) = (KeyHash(5), KeyHash(4));
    let Role::Leader(ticket) = table.enter(hash, primary, &Asked::Whole) else { panic!("nobody else") };
    let Role::Follower(fill) = table.enter(hash, primary, &Asked::Whole) else { panic!("somebody else") };
    table.forget(KeyHash(99));
    assert!(!fill.is_unwanted());
    table.forget(primary);
    assert!(fill.is_unwanted(), "a purge of the resource reaches its variants");
    let Role::Leader(second) = table.enter(hash, primary, &Asked::Whole) else {
        panic!("the purged one is not joined")
    };
    drop(ticket);
    assert!(table.is_filling(hash), "the old owner does not take the new entry out");
    second.end(|owner| owner.done(None));
    assert!(!table.is_filling(hash));
}

#[test]
fn bytes_are_followed_where_somebody_fetches_them_and_soon() {
    let table = Collapse::new();
    let hash = KeyHash(5);
    let missing = |start: u64, end: u64| Asked::Missing(start..end);
    let joins = |asked: &Asked| matches!(table.enter(hash, hash, asked), Role::Follower(_));
    let Role::Leader(ticket) = table.enter(hash, hash, &missing(100, 90 << 20)) else {
        panic!("nobody else")
    };
    // Before the head: what was asked for.
    for (asked, expected) in [
        (missing(200, 300), true),
        (missing(100, 100 << 20), true),
        (missing(50, 200), false),
        (missing(50 << 20, 51 << 20), false),
        (Asked::Whole, false),
        (Asked::Range(b"bytes=100-199".as_slice().into()), false),
    ] {
        assert_eq!(joins(&asked), expected, "{asked:?}");
    }
    // After it: what comes, and how far it has come.
    let owner = ticket.owner().unwrap();
    let follower = owner.storable(promised(), 100, Some(60 << 20));
    let (mut writer, reader) = AlignedBuffer::new(4096).unwrap().split();
    owner.piece(100, reader);
    writer.put(&[7; 4096]);
    for (asked, expected) in [
        (missing(200, 300), true),
        (missing(NEAR_BYTES, NEAR_BYTES + 1), true),
        (missing(50 << 20, 51 << 20), false),
        (missing(60 << 20, 61 << 20), false),
        (missing(50, 200), false),
        (Asked::Whole, false),
    ] {
        assert_eq!(joins(&asked), expected, "{asked:?}");
    }
    assert_eq!(follower.span(), (100, Some(60 << 20)));
    drop(ticket);
    assert!(!table.is_filling(hash), "who led beside it has left too");
}

#[test]
fn a_follower_begins_where_it_wants_to() {
    on_runtime(async {
        let owner = Fill::start(KeyHash(1), KeyHash(1), Asked::Missing(100..200));
        let first = owner.storable(promised(), 100, Some(200));
        let (mut writer, reader) = AlignedBuffer::new(100).unwrap().split();
        owner.piece(100, reader);
        writer.put(&[1; 50]);
        let later = stream(owner.fill().decided(Some(140)).await);
        let At::Memory(reader, range) = later.at() else { panic!("its bytes are there") };
        assert_eq!((range, reader.filled().len()), (40..50, 50));
        assert!(matches!(first.at(), At::Memory(_, range) if range == (0..50)));
        let latest = stream(owner.fill().decided(Some(199)).await);
        assert!(matches!(latest.at(), At::NotYet));
        assert!(
            matches!(owner.fill().decided(Some(200)).await, Decision::Released(_)),
            "not among what comes"
        );
        assert!(matches!(owner.fill().decided(Some(99)).await, Decision::Released(_)));
    });
}

#[test]
fn what_a_device_does_not_give_any_more_is_shown_to_nobody() {
    let piece = |start, place| Piece { start, place };
    let reader = || {
        let (mut writer, reader) = AlignedBuffer::new(4096).unwrap().split();
        writer.put(&[0; 100]);
        reader
    };
    let pieces = [
        piece(0, PieceAt::Memory(reader())),
        piece(100, PieceAt::Lost(50)),
        piece(150, PieceAt::Memory(reader())),
    ];
    let followers = Slab::new();
    let mut stream = Stream {
        promised: promised(),
        start: 0,
        end: Some(300),
        pieces: pieces.into(),
        followers,
        kept: true,
    };
    for (offset, there) in [(0, true), (99, true), (100, false), (149, false), (150, true), (250, true)] {
        assert_eq!(stream.has(offset), there, "{offset}");
        assert_eq!(matches!(stream.at(offset), At::Lost(150)), !there, "{offset}");
    }
    // What is in memory cannot be lost.
    stream.lose(0);
    assert!(stream.has(0));
}

#[test]
fn an_unshareable_resource_is_remembered_for_a_while() {
    let table = Collapse::new();
    let hash = KeyHash(0x1234_5678_9abc_def0_1234_5678_9abc_def0);
    let now = 1_700_000_000;
    assert!(!table.is_unshareable(hash, now));
    table.note_unshareable(hash, now);
    assert!(table.is_unshareable(hash, now + 59));
    assert!(!table.is_unshareable(hash, now + 61));
    assert!(!table.is_unshareable(KeyHash(hash.0 ^ 1 << 40), now));
}
