//! Assertions about what becomes true in time.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::Sandbox;

/// Each look starts a program or two, so looking all the time would take the time from what is waited for.
const PERIOD: Duration = Duration::from_millis(200);

/// Returns what `check` finds as soon as it is content. If it is not within `deadline`, fails with its last complaint
/// and a dump of the world.
#[track_caller]
pub fn eventually<T>(sandbox: &Sandbox, deadline: Duration, what: &str, check: impl Fn() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        let complaint = match check() {
            Ok(found) => return found,
            Err(complaint) => complaint,
        };
        assert!(
            began.elapsed() <= deadline,
            "not within {deadline:?}: {what}\nlast seen: {complaint}\n\n{}",
            sandbox.dump()
        );
        thread::sleep(PERIOD);
    }
}
