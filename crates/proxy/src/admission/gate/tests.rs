#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use super::super::xdp::FrontGate;
use super::*;

/// A listener, and a gate in front of it whose kernel refuses every filter.
fn refused(front: Option<&Arc<FrontGate>>) -> (TcpListener, Gate) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let seat = front.and_then(|front| front.seat(FrontGate::LISTENER));
    let attach: Attach = |_, _, _| Err(io::Error::from_raw_os_error(12)); // ENOMEM: net.core.optmem_max
    (listener, Gate { attach, ..Gate::new(seat) })
}

/// Looks when it is time to, with a sign of the machine that wants `floor` dropped.
fn look(gate: &mut Gate, listener: &TcpListener, floor: f64) {
    std::thread::sleep(PERIOD);
    assert_eq!(gate.look(listener, Shedding::On, floor), 0, "dropped by a filter that is not there");
}

#[test]
fn without_a_filter_nothing_is_shed() {
    let (listener, mut gate) = refused(None);
    for _ in 0..3 {
        look(&mut gate, &listener, 0.5);
        assert!(gate.refused && !gate.is_shedding());
    }
}

#[test]
fn without_a_filter_the_gate_in_front_goes_on_and_stops() {
    let Some(front) = FrontGate::attached_nowhere() else {
        return println!("NOT RUN: gate in front of a refused filter: needs CAP_BPF");
    };
    let (listener, mut gate) = refused(Some(&front));
    for share in [0.5, 0.75, 0.25] {
        look(&mut gate, &listener, share);
        assert!(gate.refused && gate.is_shedding());
        assert_eq!((front.share(), gate.filter), (share, Filter::OFF));
    }
    look(&mut gate, &listener, 0.0);
    assert!(!gate.is_shedding());
    assert_eq!(front.share(), 0.0);
}
