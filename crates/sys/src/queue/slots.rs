//! A fixed number of places, each found again by a token that names one stay.
//!
//! What must hold: a token of an earlier stay finds nothing.

use super::Token;

#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    stay: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(crate) fn new(count: u32) -> Self {
        let slots = (0..count).map(|_| Slot { stay: 0, value: None }).collect();
        Self { slots, free: (0..count).rev().collect() }
    }

    pub(crate) fn occupied(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// A place for `value`, or nothing (and the value is gone: ask [`is_full`](Self::is_full) first).
    pub(crate) fn insert(&mut self, value: T) -> Option<Token> {
        let index = self.free.pop()?;
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        Some(Token(u64::from(slot.stay) << 32 | u64::from(index)))
    }

    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        self.slot(token)?.value.as_mut()
    }

    pub(crate) fn remove(&mut self, token: Token) -> Option<T> {
        let slot = self.slot(token)?;
        let value = slot.value.take()?;
        slot.stay = slot.stay.wrapping_add(1);
        self.free.push(token.0 as u32);
        Some(value)
    }

    fn slot(&mut self, token: Token) -> Option<&mut Slot<T>> {
        let slot = self.slots.get_mut(token.0 as u32 as usize)?;
        (u64::from(slot.stay) == token.0 >> 32).then_some(slot)
    }
}

impl Token {
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_token_of_an_earlier_stay_finds_nothing() {
        let mut slots = Slots::new(1);
        let first = slots.insert('a').unwrap();
        assert!(slots.is_full() && slots.insert('b').is_none());
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('c').unwrap();
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get_mut(second), Some(&mut 'c'));
    }

    proptest! {
        /// Twin: a hash map.
        #[test]
        fn slots_are_a_bounded_map(steps in prop::collection::vec((any::<bool>(), 0_usize..64), 0..200)) {
            let (mut slots, mut twin, mut issued) = (Slots::new(5), HashMap::new(), Vec::new());
            for (insert, value) in steps {
                if insert {
                    let token = slots.insert(value);
                    prop_assert_eq!(token.is_some(), twin.len() < 5);
                    if let Some(token) = token {
                        prop_assert_eq!(twin.insert(token, value), None);
                        issued.push(token);
                    }
                } else if let Some(&token) = issued.get(value) {
                    prop_assert_eq!(slots.remove(token), twin.remove(&token));
                }
                prop_assert_eq!(slots.occupied(), twin.len());
            }
        }
    }
}
