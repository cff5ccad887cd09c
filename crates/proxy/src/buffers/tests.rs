#![allow(clippy::unwrap_used)]
use super::*;

const SMALL: usize = Size::Small.bytes();
const LARGE: usize = Size::Large.bytes();
const ALL: usize = 64 * 1024;

fn holding(buffers: &Rc<Buffers>, bytes: &[u8]) -> Window {
    let mut window = buffers.window(Size::Small);
    window.append(bytes);
    window
}

/// As [`Window::poll_fill`] does, without a socket.
fn receive(window: &mut Window, bytes: &[u8]) {
    let room = window.room(bytes.len());
    room.copy_from_slice(bytes);
    window.filled_more(bytes.len());
}

#[test]
fn bytes_stay_in_order_while_a_window_moves_and_grows() {
    let buffers = Buffers::new(ALL);
    let mut window = holding(&buffers, &[1; SMALL]);
    assert!(window.is_full());
    window.consume(SMALL - 2);
    receive(&mut window, &[2; 100]);
    assert_eq!(window.filled(), [&[1; 2][..], &[2; 100]].concat());
    window.append(&[3; LARGE]);
    window.grow(ALL).unwrap();
    assert_eq!(window.filled(), [&[1; 2][..], &[2; 100], &[3; LARGE]].concat());
}

#[test]
fn an_empty_window_holds_no_buffer() {
    let buffers = Buffers::new(ALL);
    let mut window = holding(&buffers, b"bytes");
    assert_eq!(buffers.kept_bytes(), 0);
    window.consume(4);
    assert_eq!(buffers.kept_bytes(), 0);
    window.consume(1);
    assert_eq!(buffers.kept_bytes(), SMALL);
    window.append(b"");
    assert_eq!(buffers.kept_bytes(), SMALL, "nothing to hold");
    receive(&mut window, b"more");
    assert_eq!(window.filled(), b"more");
    assert_eq!(buffers.kept_bytes(), 0);
}

#[test]
fn a_buffer_is_small_or_large_as_was_asked_and_grown_ones_do_not_stay() {
    let buffers = Buffers::new(ALL);
    let mut window = buffers.window(Size::Large);
    receive(&mut window, b"a body");
    drop(window);
    assert_eq!(buffers.kept_bytes(), LARGE);
    let mut window = holding(&buffers, &[0; SMALL]);
    for (size, kept) in [(LARGE, SMALL), (2 * LARGE, SMALL + LARGE), (3 * LARGE, SMALL + LARGE)] {
        window.grow(3 * LARGE).unwrap();
        assert_eq!((window.data.len(), buffers.kept_bytes()), (size, kept));
    }
    assert_eq!(window.grow(3 * LARGE), Err(NoRoom::Limit));
    drop(window);
    assert_eq!(buffers.kept_bytes(), SMALL + LARGE);
}

#[test]
fn long_heads_together_stay_within_their_memory() {
    let buffers = Buffers::new(2 * LARGE);
    let mut windows: Vec<_> = (0..3).map(|_| holding(&buffers, &[0; SMALL])).collect();
    assert_eq!(windows[0].grow(ALL), Ok(()));
    assert_eq!(windows[1].grow(ALL), Ok(()));
    assert_eq!(windows[2].grow(ALL), Err(NoRoom::Memory));
    assert_eq!(windows[0].grow(ALL), Err(NoRoom::Memory), "twice as large is more than there is");
    windows[1].consume(SMALL);
    assert_eq!(windows[0].grow(ALL), Ok(()), "it counts once, at its new size");
    windows.clear();
    assert_eq!(buffers.grown.get(), 0);
    buffers.set_grown_max(0);
    assert_eq!(holding(&buffers, &[0; SMALL]).grow(ALL), Err(NoRoom::Memory));
}

#[test]
fn only_buffers_that_were_of_use_are_counted() {
    let buffers = Buffers::new(ALL);
    let mut window = buffers.window(Size::Small);
    for _ in 0..10 {
        window.room(usize::MAX);
        window.release();
    }
    assert_eq!(buffers.drain_counts(), (0, 0));
    receive(&mut window, b"x");
    receive(&mut window, b"y");
    assert_eq!(buffers.drain_counts(), (1, 0));
    let _two = holding(&buffers, b"z");
    assert_eq!(buffers.drain_counts(), (0, 1));
}

#[test]
fn what_a_burst_needed_goes_in_a_few_steps_and_what_is_in_use_stays() {
    let buffers = Buffers::new(ALL);
    drop((0..1000).map(|_| holding(&buffers, b"x")).collect::<Vec<_>>());
    assert_eq!(buffers.kept_bytes(), 1000 * SMALL);
    let in_use = |n: usize| drop((0..n).map(|_| holding(&buffers, b"x")).collect::<Vec<_>>());
    for _ in 0..20 {
        in_use(50);
        buffers.trim();
    }
    assert_eq!(buffers.kept_bytes(), 50 * SMALL);
    for _ in 0..20 {
        buffers.trim();
    }
    assert_eq!(buffers.kept_bytes(), 0);
}

#[test]
fn what_is_kept_is_bounded() {
    let buffers = Buffers::new(ALL);
    let fill = |size: Size| {
        let windows = (0..KEEP_SMALL + 100).map(|_| {
            let mut window = buffers.window(size);
            receive(&mut window, b"x");
            window
        });
        drop(windows.collect::<Vec<_>>());
    };
    fill(Size::Small);
    assert_eq!(buffers.kept_bytes(), KEEP_SMALL * SMALL);
    fill(Size::Large);
    assert_eq!(buffers.kept_bytes(), KEEP_SMALL * SMALL + KEEP_LARGE * LARGE);
}
