//! Locks that several may be taken of, in one order only: else two who take the same two wait for each other for ever.
//!
//! In builds for tests, whoever takes them in another order panics, whether or not anybody waits at that moment. None can be held while
//! something is awaited: their guards can't move to another thread, and the compiler refuses a task that would have them do so.

use std::{
    ops::{Deref, DerefMut},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A lock with its place in the order.
#[derive(Debug, Default)]
pub(crate) struct Lock<const PLACE: u8, T>(Mutex<T>);

/// What is locked, until this is dropped.
pub(crate) struct Guard<'a, const PLACE: u8, T> {
    locked: MutexGuard<'a, T>,
    _turn: order::Turn,
}

impl<const PLACE: u8, T> Lock<PLACE, T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, PLACE, T> {
        let turn = order::take(PLACE);
        // Who panics while it has one ends the operator.
        Guard { locked: self.0.lock().unwrap_or_else(PoisonError::into_inner), _turn: turn }
    }
}

impl<const PLACE: u8, T> Deref for Guard<'_, PLACE, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.locked
    }
}

impl<const PLACE: u8, T> DerefMut for Guard<'_, PLACE, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.locked
    }
}

#[cfg(debug_assertions)]
mod order {
    use std::cell::Cell;

    thread_local! {
        /// The places of all locks that this thread has, a bit for each.
        static TAKEN: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) struct Turn(u8);

    pub(super) fn take(place: u8) -> Turn {
        let taken = TAKEN.get();
        assert!(taken >> place == 0, "locks are taken out of order: {place} while places {taken:b} are taken");
        TAKEN.set(taken | 1 << place);
        Turn(place)
    }

    impl Drop for Turn {
        fn drop(&mut self) {
            TAKEN.set(TAKEN.get() & !(1 << self.0));
        }
    }
}

#[cfg(not(debug_assertions))]
mod order {
    pub(super) struct Turn;

    pub(super) fn take(_: u8) -> Turn {
        Turn
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn locks_are_taken_in_their_order_and_given_back_in_any() {
        let (first, second) = (Lock::<0, _>::new(1), Lock::<1, _>::new(2));
        let (one, mut two) = (first.lock(), second.lock());
        *two += *one;
        drop(one);
        drop(two);
        assert_eq!(*second.lock(), 3);
        drop((first.lock(), second.lock()));
        let backwards = || {
            let (first, second) = (Lock::<0, _>::new(0), Lock::<1, _>::new(0));
            let _second = second.lock();
            drop(first.lock());
        };
        assert!(catch_unwind(backwards).is_err());
        let twice = || {
            let (one, other) = (Lock::<1, _>::new(0), Lock::<1, _>::new(0));
            let _one = one.lock();
            drop(other.lock());
        };
        assert!(catch_unwind(twice).is_err(), "nor two of the same place");
    }
}
