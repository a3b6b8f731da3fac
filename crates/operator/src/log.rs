//! The log: no line more than once a minute for the same cause and object, nor for more than a few objects of one cause, and then how
//! often it came.

use std::{
    convert::Infallible,
    env,
    fmt::{self, Debug, Write as _},
    io::{self, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use drover_core::{group::Timestamp, throttle::Repeats};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{self, Format, Writer},
    },
    registry::LookupSpan,
};

/// How often it is looked whether a minute is over.
const LOOK: Duration = Duration::from_secs(1);

/// How much is written unless `RUST_LOG` says otherwise. kube's own lines on requests that fail name no object: whoever has asked says
/// what failed, and for which.
const USUAL: &str = "info,kube=warn,kube_client::client::builder=off";

/// What differs from one time to the next though the cause is the same. All other fields say what a line is about.
const CHANGING: [&str; 5] = ["message", "error", "action", "fault", "task"];

/// What has been written in the last minute.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Repeats<String>>>);

impl Log {
    /// Begins to write to standard error, as much as `RUST_LOG` says.
    pub(crate) fn start() -> Self {
        let log = Self::default();
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(USUAL));
        let has_colours = env::var("NO_COLOR").map_or(true, |value| value.is_empty());
        let lines = Lines { log: log.clone(), format: format::format().with_ansi(has_colours) };
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).event_format(lines).init();
        log
    }

    /// Writes what was left out, for as long as the operator runs.
    pub(crate) async fn sum_up(&self) -> Infallible {
        loop {
            tokio::time::sleep(LOOK).await;
            for line in self.left_out(Timestamp::now()) {
                // Whoever reads it may have gone.
                let _ = writeln!(io::stderr(), "{line}");
            }
        }
    }

    /// What was left out in the minutes that are over, in the order of time.
    fn left_out(&self, now: Timestamp) -> Vec<String> {
        let mut over = self.repeats().over(now);
        over.sort();
        let times = |count| if count == 1 { "1 more time".to_owned() } else { format!("{count} more times") };
        over.into_iter().map(|(line, count)| format!("{line} ({} in the last minute)", times(count))).collect()
    }

    fn repeats(&self) -> MutexGuard<'_, Repeats<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lines as they are usually written, each if it is its time.
struct Lines {
    log: Log,
    format: Format,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        // Who asks for more wants all of it.
        if *event.metadata().level() > Level::INFO {
            return self.format.format_event(context, writer, event);
        }
        let mut line = String::new();
        self.format.format_event(context, Writer::new(&mut line), event)?;
        let line = line.trim_end_matches('\n').to_owned();
        let (cause, about) = about(event);
        match self.log.repeats().admit(cause, about, line, Timestamp::now()) {
            Some(line) => writeln!(writer, "{line}"),
            None => Ok(()),
        }
    }
}

/// What a line is about: where it is said and what is said, and that with which object it is said of.
fn about(event: &Event<'_>) -> (String, String) {
    let metadata = event.metadata();
    let cause = format!("{} {}", metadata.level(), metadata.target());
    let mut about = About { cause, object: String::new(), level: *metadata.level() };
    event.record(&mut about);
    let whole = format!("{}{}", about.cause, about.object);
    // What is only of interest is of interest for each object.
    if about.level < Level::INFO { (about.cause, whole) } else { (whole.clone(), whole) }
}

struct About {
    cause: String,
    object: String,
    level: Level,
}

impl Visit for About {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut value = format!("{value:?}");
        let is_changing = CHANGING.contains(&field.name());
        // What is only of interest is left out where nothing in it is new.
        if self.level < Level::INFO && is_changing {
            value = without_numbers(&value);
        }
        let text = if is_changing { &mut self.cause } else { &mut self.object };
        // Writing to a string can't fail.
        let _ = write!(text, " {}={value}", field.name());
    }
}

/// A text without the words that have digits in them.
fn without_numbers(text: &str) -> String {
    let has_number = |word: &&str| word.contains(|letter: char| letter.is_ascii_digit());
    text.split_whitespace().filter(|word| !has_number(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use tracing::{debug, info, subscriber::with_default, warn};
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Written {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// What is written of what is said, and what a minute later.
    fn written(say: impl FnOnce()) -> (Vec<String>, Vec<String>) {
        let (written, log) = (Written::default(), Log::default());
        let lines = Lines { log: log.clone(), format: format::format().with_ansi(false) };
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::DEBUG)
            .with_writer(written.clone())
            .event_format(lines)
            .finish();
        with_default(subscriber, say);
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        (text.lines().map(ToOwned::to_owned).collect(), log.left_out(Timestamp::now() + Duration::from_mins(1)))
    }

    #[test]
    fn a_warning_is_written_once_for_each_object_and_then_with_how_often_it_came() {
        let (at_once, later) = written(|| {
            for attempt in 0..42 {
                for group in ["web-1", "web-2"] {
                    warn!(group, error = format!("attempt {attempt} failed"), "a reconcile failed");
                }
            }
        });
        assert_eq!(at_once.len(), 2, "{at_once:?}");
        assert!(at_once[0].contains("a reconcile failed group=\"web-1\""), "{at_once:?}");
        assert_eq!(later.len(), 2, "{later:?}");
        for line in later {
            assert!(line.ends_with("error=\"attempt 41 failed\" (41 more times in the last minute)"), "{line}");
        }
    }

    #[test]
    fn another_cause_is_written_at_once() {
        let (at_once, later) = written(|| {
            for error in ["refused by 10.0.0.1", "refused by 10.0.0.2", "not trusted"] {
                warn!(vcenter = "lab", error, "vCenter is away");
            }
        });
        assert_eq!((at_once.len(), later.len()), (2, 1), "{at_once:?} {later:?}");
    }

    #[test]
    fn what_is_of_interest_is_left_out_only_where_nothing_in_it_is_new() {
        let (at_once, later) = written(|| {
            for task in ["task-1", "task-2", "task-2"] {
                info!(group = "web", task, "submitted");
                debug!("and more");
            }
        });
        assert_eq!((at_once.len(), later.len()), (5, 1), "{at_once:?} {later:?}");
    }
}
