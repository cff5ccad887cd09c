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

#[test]
fn a_small_step_waits_a_large_one_and_the_end_do_not() {
    let filter = |share, of_thinned| Filter {
        share: DropShare::nearest(share),
        of_thinned: DropShare::nearest(of_thinned),
    };
    let (young, old) = (PERIOD, SMALL_STEP_WAITS);
    for (from, to, is_due_young, is_due_old) in [
        (filter(0.5, 0.0), filter(0.5, 0.0), false, false),
        (filter(0.5, 0.0), filter(0.51, 0.0), false, true),
        (filter(0.5, 0.0), filter(0.6, 0.0), true, true),
        (filter(0.5, 0.0), filter(0.5, 0.1), true, true),
        // Of what passes at 95 % it is a fifth.
        (filter(0.95, 0.0), filter(0.96, 0.0), true, true),
        (Filter::OFF, filter(0.01, 0.01), false, true),
        (filter(0.01, 0.01), Filter::OFF, true, true),
    ] {
        let is_due = [young, old].map(|age| to.is_due(from, age));
        assert_eq!(is_due, [is_due_young, is_due_old], "{from:?} to {to:?}");
    }
}
