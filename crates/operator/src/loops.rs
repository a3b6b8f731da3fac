//! The tasks of the operator: all that it does beside each other, until it ends and has waited for them.
//!
//! The loops that it lives by say that they turn, and `/healthz` tells when one doesn't. A loop that ends, and a panic anywhere, ends the
//! operator: whoever runs it starts it again, and nothing is lost by that.

use std::{
    any::Any,
    cell::Cell,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind, set_hook},
    process,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, warn};

/// How long tasks are waited for that come to an end by themselves.
const FAREWELL: Duration = Duration::from_secs(5);
/// How often a loop that waits says that it is there.
const BEAT: Duration = Duration::from_secs(5);
/// How long the operator has to say goodbye when it ends because of a bug.
const LAST_WORDS: Duration = Duration::from_secs(25);
/// A loop that has not turned for so long stands still.
const STILL: Duration = Duration::from_mins(1);

/// All tasks. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loops(Arc<All>);

#[derive(Debug, Default)]
struct All {
    next: AtomicU64,
    turned: Mutex<BTreeMap<u64, (String, Instant)>>,
    tasks: TaskTracker,
    /// That the operator ends.
    end: CancellationToken,
}

/// By which a loop says that it turns. When it is dropped, nobody asks for it any more.
#[derive(Debug)]
pub(crate) struct Pulse {
    loops: Loops,
    id: u64,
    name: String,
}

/// A loop that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Running(JoinHandle<()>);

impl Running {
    /// Ends the loop, and returns when it does nothing more.
    pub(crate) async fn stop(mut self) {
        self.0.abort();
        // It was aborted, or had panicked, which was told.
        let _ = (&mut self.0).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Loops {
    /// Starts a loop that is to run until it is dropped.
    #[must_use = "a loop ends when it is dropped"]
    pub(crate) fn start<F>(&self, name: impl Into<String>, run: impl FnOnce(Pulse) -> F) -> Running
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let name = name.into();
        let turning = run(self.pulse(&name));
        let end_of_all = self.0.end.clone();
        Running(self.0.tasks.spawn(async move {
            if end_of_all.run_until_cancelled(turning).await.is_some() {
                end(format!("the loop {name} has ended"));
            }
        }))
    }

    /// The pulse of a loop that somebody else runs.
    pub(crate) fn pulse(&self, name: &str) -> Pulse {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let pulse = Pulse { loops: self.clone(), id, name: name.to_owned() };
        pulse.beat();
        pulse
    }

    /// Does something beside all else, for as long as the operator runs.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let end = self.0.end.clone();
        self.0.tasks.spawn(async move {
            end.run_until_cancelled(work).await;
        })
    }

    /// Does something to its end, which is waited for when the operator ends.
    pub(crate) fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.spawn(work);
    }

    /// Waits for so long, or until the operator ends, and says whether it goes on.
    pub(crate) async fn pause(&self, length: Duration) -> bool {
        self.0.end.run_until_cancelled(sleep(length)).await.is_some()
    }

    /// Ends all tasks, and waits for those that come to their end.
    pub(crate) async fn end(&self) {
        self.0.end.cancel();
        self.0.tasks.close();
        if timeout(FAREWELL, self.0.tasks.wait()).await.is_err() {
            warn!(tasks = self.0.tasks.len(), "Tasks not ended in time");
        }
    }

    /// The loops that stand still.
    pub(crate) fn still(&self) -> Vec<String> {
        let turned = self.turned();
        let still = turned.values().filter(|(_, turned)| turned.elapsed() > STILL);
        still.map(|(name, turned)| format!("{name} has not turned for {} s", turned.elapsed().as_secs())).collect()
    }

    fn turned(&self) -> MutexGuard<'_, BTreeMap<u64, (String, Instant)>> {
        self.0.turned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pulse {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn beat(&self) {
        self.loops.turned().insert(self.id, (self.name.clone(), Instant::now()));
    }

    /// Waits for what a loop has to wait for. That it takes long is no fault of the loop.
    pub(crate) async fn wait<T>(&self, awaited: impl Future<Output = T>) -> T {
        let mut awaited = std::pin::pin!(awaited);
        loop {
            self.beat();
            trial::at(&self.name).await;
            tokio::select! {
                biased;
                outcome = &mut awaited => {
                    self.beat();
                    return outcome;
                }
                () = sleep(BEAT) => {}
                () = trial::told() => {}
            }
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.loops.turned().remove(&self.id);
    }
}

thread_local! {
    /// Whether a panic is caught here.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Has every panic end the operator, but for those that [`attempt`] catches.
pub(crate) fn end_at_panics() {
    set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let what = said(panic.payload());
        if IS_CAUGHT.get() {
            return error!(place, error = what, "Drover has a bug");
        }
        end(format!("Drover has a bug: at {place}: {what}"));
    }));
}

/// Does what changes nothing, and of which a panic is no reason to end.
pub(crate) fn attempt<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let before = IS_CAUGHT.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(before);
    outcome.map_err(|panic| said(&*panic))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Why the operator ends, once it does.
static END: OnceLock<String> = OnceLock::new();
static ENDED: Notify = Notify::const_new();

/// Has the operator end: nothing more is changed, and what can be said goodbye to in a moment is.
fn end(why: String) {
    error!(error = why, "Drover has a bug; the operator ends, to be started again");
    if END.set(why).is_ok() {
        ENDED.notify_one();
        // Whatever else stands still now.
        thread::spawn(|| {
            thread::sleep(LAST_WORDS);
            process::exit(1)
        });
    }
}

/// Whether the operator ends because of a bug.
pub(crate) fn is_ending() -> bool {
    END.get().is_some()
}

/// Returns why, once the operator ends because of a bug.
pub(crate) async fn ended() -> String {
    ENDED.notified().await;
    END.get().cloned().unwrap_or_default()
}

/// What tests do to a running operator, to see that it is noticed: hold a loop still, or have it panic. Only in builds for tests, and
/// where `DROVER_TRIALS` is set.
#[cfg(debug_assertions)]
pub(crate) mod trial {
    use std::sync::{LazyLock, Mutex, PoisonError};

    use tokio::sync::Notify;

    static TRIALS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
    static TOLD: Notify = Notify::const_new();
    static ARE_ALLOWED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("DROVER_TRIALS").is_some());

    /// Takes up a trial: `/trial/hold/NAME` or `/trial/panic/NAME`; or that it is over: `/trial/end/NAME`.
    pub(crate) fn tell(path: &str) -> bool {
        let path = path.replace("%20", " ");
        let Some((what, name)) = path.strip_prefix("/trial/").and_then(|rest| rest.split_once('/')) else {
            return false;
        };
        if !*ARE_ALLOWED || !matches!(what, "hold" | "panic" | "end") {
            return false;
        }
        let mut trials = TRIALS.lock().unwrap_or_else(PoisonError::into_inner);
        trials.retain(|(_, of)| of != name);
        if what != "end" {
            trials.push((what.to_owned(), name.to_owned()));
        }
        drop(trials);
        TOLD.notify_waiters();
        true
    }

    pub(super) async fn told() {
        TOLD.notified().await;
    }

    pub(super) async fn at(name: &str) {
        match next(name).as_deref() {
            Some("hold") => std::future::pending().await,
            Some(_) => panic!("a trial"),
            None => {}
        }
    }

    /// Panics here, if that is tried.
    pub(crate) fn point(name: &str) {
        assert!(next(name).is_none(), "a trial");
    }

    fn next(name: &str) -> Option<String> {
        let trials = TRIALS.lock().unwrap_or_else(PoisonError::into_inner);
        trials.iter().find(|(_, of)| of == name).map(|(what, _)| what.clone())
    }
}

#[cfg(not(debug_assertions))]
pub(crate) mod trial {
    pub(crate) fn tell(_: &str) -> bool {
        false
    }

    pub(super) async fn told() {
        std::future::pending().await
    }

    pub(super) async fn at(_: &str) {}

    pub(crate) fn point(_: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_loop_that_waits_turns_and_one_that_is_dropped_is_asked_for_no_more() {
        let loops = Loops::default();
        let pulse = loops.pulse("queue");
        assert_eq!(pulse.wait(async { 7 }).await, 7);
        assert_eq!(loops.still(), [""; 0]);
        let long_ago = Instant::now().checked_sub(STILL + BEAT).expect("the machine runs for longer than that");
        loops.turned().insert(pulse.id, ("queue".to_owned(), long_ago));
        assert_eq!(loops.still(), ["queue has not turned for 65 s"]);
        drop(pulse);
        assert_eq!(loops.still(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_stops_what_goes_on_for_ever_and_waits_for_what_comes_to_its_end() {
        let (loops, (done, mut is_done)) = (Loops::default(), tokio::sync::oneshot::channel());
        let _running = loops.start("loop", |_pulse| std::future::pending());
        let endless = loops.spawn(std::future::pending());
        loops.finish({
            let loops = loops.clone();
            async move {
                assert!(!loops.pause(Duration::from_hours(1)).await, "who only waits goes on at once");
                sleep(Duration::from_secs(1)).await;
                let _ = done.send(());
            }
        });
        loops.end().await;
        assert!(endless.is_finished() && is_done.try_recv().is_ok());
        assert!(!is_ending(), "a loop that is ended has no bug");
    }

    #[test]
    fn what_panics_in_an_attempt_is_told() {
        assert_eq!(attempt(|| 7), Ok(7));
        assert_eq!(attempt(|| -> u8 { panic!("of {}", 7) }), Err("of 7".to_owned()));
    }
}
