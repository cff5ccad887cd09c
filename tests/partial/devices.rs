//! Bytes that a device does not give any more while they are sent: they are a hole in the middle of the delivery.
//!
//! The device is a file on a filesystem of the test's own, which answers as it is told ([`FaultyDisk`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use testkit::{Ask, Client, Fate, FaultyDisk, Origin, Reply, Request, Tidegate};

use crate::{Representation, asked};

const MIB: u64 = 1 << 20;

/// More than the sockets between hold, and what is read ahead.
const SIZE: u64 = 32 * MIB;

/// A client that has the first mebibyte of a body and takes no more for now, and the device that the rest is on.
struct Delivery {
    // Before the process, which cannot end before its requests to the device have.
    disk: FaultyDisk,
    all: Representation,
    origin: Origin,
    tidegate: Tidegate,
    client: Client,
}

/// An origin that answers as [`Representation`] does until it is told to answer as `then` does.
fn turning(then: fn(&Request) -> Reply) -> (Origin, Arc<AtomicBool>) {
    let turned = Arc::new(AtomicBool::new(false));
    let origin = Origin::answering({
        let turned = Arc::clone(&turned);
        move |request| match turned.load(Ordering::SeqCst) {
            true => then(request),
            false => Representation::new(SIZE).answer(request),
        }
    });
    (origin, turned)
}

/// Nothing where this machine has no FUSE for us, and then that was said.
fn faulty(test: &str) -> Option<FaultyDisk> {
    FaultyDisk::of(&format!("partial::devices::{test}"))
}

fn start(origin: &Origin, disk: &FaultyDisk, io: &str) -> Tidegate {
    let path = disk.path().display().to_string();
    Tidegate::run(&["format", &path]).expect(0);
    let toml = format!("[store]\nio = \"{io}\"\nread_timeout = \"300ms\"");
    Tidegate::reverse(origin).store_at(&path).toml(&toml).start()
}

/// A client that has the first mebibyte.
fn begin(tidegate: &Tidegate, all: Representation) -> Client {
    let mut client = tidegate.client();
    client.small_receive_buffer();
    client.send(Ask::get("/").bytes());
    assert_eq!(client.head().status(), 200);
    all.pattern.expect(&mut client, 0, MIB);
    client
}

impl Delivery {
    /// Of a body that is stored, and has not been read since the start.
    fn of_a_hit(origin: Origin, disk: FaultyDisk, io: &str) -> Delivery {
        let all = Representation::new(SIZE);
        let mut tidegate = start(&origin, &disk, io);
        all.expect_whole(&tidegate.get("/"));
        tidegate.wait_stored(1);
        tidegate.stop();
        disk.forget_pages();
        tidegate.restart();
        let client = begin(&tidegate, all);
        assert_eq!(origin.count(), 1, "it was no hit");
        Delivery { disk, all, origin, tidegate, client }
    }

    /// Of a body that has come from the origin and left memory already.
    fn of_a_fill(origin: Origin, disk: FaultyDisk, io: &str) -> Delivery {
        let all = Representation::new(SIZE);
        let tidegate = start(&origin, &disk, io);
        let client = begin(&tidegate, all);
        tidegate.wait_stored(1);
        disk.forget_pages();
        Delivery { disk, all, origin, tidegate, client }
    }

    /// The client gets the rest, and what the device had of it comes from the origin.
    fn comes_whole(mut self) {
        self.all.pattern.expect(&mut self.client, MIB, SIZE - MIB);
        let asked = asked(&self.origin);
        assert!(asked.len() > 1 && !asked[1..].contains(&"all".to_owned()), "{asked:?}");
        let conditions = self.origin.requests().into_iter().skip(1).map(|it| it.head.field("if-range"));
        assert!(conditions.into_iter().all(|it| it.as_deref() == Some(self.all.etag)));
        // The connection goes on, and what is damaged is no hit.
        self.client.send(Ask::get("/").bytes());
        let again = self.client.response();
        self.all.expect_whole(&again);
        assert!(!again.field("cache-status").unwrap().contains("; hit"), "{again:?}");
        assert_eq!(self.tidegate.metrics().sum("tidegate_checksum_failures_total"), 0.0);
    }

    /// The client gets no more than the origin's bytes, and no end.
    fn breaks_off(mut self) {
        let mut at = MIB;
        while let Some(bytes) = self.client.try_some(1 << 20).ok().filter(|bytes| !bytes.is_empty()) {
            self.all.pattern.compare(&bytes, at);
            at += bytes.len() as u64;
        }
        assert!(at < SIZE, "it looks complete");
    }
}

fn a_hit_comes_whole(test: &str, io: &str, fate: Fate) {
    let Some(disk) = faulty(test) else { return };
    let delivery = Delivery::of_a_hit(Representation::new(SIZE).origin(), disk, io);
    delivery.disk.reads(fate);
    delivery.comes_whole();
}

#[test]
fn a_hit_whose_device_fails_past_the_page_cache() {
    a_hit_comes_whole("a_hit_whose_device_fails_past_the_page_cache", "direct", Fate::Fails);
}

#[test]
fn a_hit_whose_device_fails_under_the_page_cache() {
    a_hit_comes_whole("a_hit_whose_device_fails_under_the_page_cache", "page-cache", Fate::Fails);
}

#[test]
fn a_hit_whose_device_hangs() {
    a_hit_comes_whole("a_hit_whose_device_hangs", "direct", Fate::Never);
}

#[test]
fn a_fill_whose_device_fails_behind_it() {
    let test = "a_fill_whose_device_fails_behind_it";
    for io in ["direct", "page-cache"] {
        let Some(disk) = faulty(test) else { return };
        let delivery = Delivery::of_a_fill(Representation::new(SIZE).origin(), disk, io);
        delivery.disk.reads(Fate::Fails);
        delivery.comes_whole();
    }
}

#[test]
fn where_the_origin_does_not_give_them_either_the_body_breaks_off() {
    let test = "where_the_origin_does_not_give_them_either_the_body_breaks_off";
    let fails: fn(&Request) -> Reply = |_| Reply::status(503, "");
    let has_changed: fn(&Request) -> Reply =
        |request| Representation { etag: "\"v2\"", ..Representation::new(SIZE + 1) }.answer(request);
    for then in [fails, has_changed] {
        for deliver in [Delivery::of_a_hit, Delivery::of_a_fill] {
            let Some(disk) = faulty(test) else { return };
            let (origin, turned) = turning(then);
            let delivery = deliver(origin, disk, "direct");
            turned.store(true, Ordering::SeqCst);
            delivery.disk.reads(Fate::Fails);
            delivery.breaks_off();
        }
    }
}
