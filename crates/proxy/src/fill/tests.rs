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
        let owner = Fill::start(KeyHash(1), KeyHash(1));
        let waiter = tokio::task::spawn_local({
            let fill = Arc::clone(owner.fill());
            async move { stream(fill.decided().await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished(), "Ready decides nothing");
        let first = owner.storable(promised(), Some(6));
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
        let owner = Fill::start(KeyHash(1), KeyHash(1));
        let fill = Arc::clone(owner.fill());
        let waiter = tokio::task::spawn_local({
            let fill = Arc::clone(&fill);
            async move { matches!(fill.decided().await, Decision::Failed("owner-gone")) }
        });
        tokio::task::yield_now().await;
        drop(owner);
        assert!(waiter.await.unwrap());

        let owner = Fill::start(KeyHash(1), KeyHash(1));
        let follower = owner.storable(promised(), Some(6));
        drop(owner);
        assert!(matches!(follower.at(), At::Broken(_)), "a short body never looks complete");
    });
}

#[test]
fn a_release_sends_the_waiters_away_at_once() {
    on_runtime(async {
        let owner = Fill::start(KeyHash(1), KeyHash(1));
        let fill = Arc::clone(owner.fill());
        owner.release("no-store");
        assert!(matches!(fill.decided().await, Decision::Released("no-store")));
    });
}

#[test]
fn what_the_store_gave_up_on_is_kept_for_the_slowest_follower_only() {
    on_runtime(async {
        let owner = Fill::start(KeyHash(1), KeyHash(1));
        let mut fast = owner.storable(promised(), Some(12));
        let mut slow = stream(owner.fill().decided().await);
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
        assert!(matches!(owner.fill().decided().await, Decision::Released(_)), "its first bytes are gone");
        drop(slow);
        assert_eq!(owner.pieces_in_memory(), 1);
    });
}

#[test]
fn the_table_holds_one_owner_a_key_and_forgets_what_is_purged() {
    let table = Collapse::new();
    let (hash, primary) = (KeyHash(5), KeyHash(4));
    let Role::Leader(ticket) = table.enter(hash, primary) else { panic!("nobody else") };
    let Role::Follower(fill) = table.enter(hash, primary) else { panic!("somebody else") };
    table.forget(KeyHash(99));
    assert!(!fill.is_unwanted());
    table.forget(primary);
    assert!(fill.is_unwanted(), "a purge of the resource reaches its variants");
    let Role::Leader(second) = table.enter(hash, primary) else { panic!("the purged one is not joined") };
    drop(ticket);
    assert!(table.is_filling(hash), "the old owner does not take the new entry out");
    second.end(|owner| owner.done(None));
    assert!(!table.is_filling(hash));
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
