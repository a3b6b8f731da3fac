//! The log: no line more than once a minute for the same cause and object, nor for more than a few objects of one cause, and then how
//! often it came. As text, or as one JSON object a line.

mod json;
mod level;

use std::{
    convert::Infallible,
    env,
    error::Error,
    fmt::{self, Debug, Write as _},
    io::{self, IsTerminal, Write as _},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use clap::{Args, ValueEnum};
use drover_core::{Timestamp, throttle::Repeats};
use kube::ResourceExt;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer as _,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{self, Format, Writer},
    },
    layer::SubscriberExt as _,
    registry::LookupSpan,
    reload,
    util::SubscriberInitExt as _,
};

use level::{Handle, Verbosity};

/// How often it is looked whether a minute is over.
const LOOK: Duration = Duration::from_secs(1);

/// What differs from one time to the next though the cause is the same. All other fields say what a line is about.
const CHANGING: [&str; 7] = ["message", "error", "operation", "fault", "task", "reason", "seconds"];

/// How the operator logs.
#[derive(Args, Clone, Debug)]
#[allow(clippy::struct_field_names, reason = "flags are called as their fields")]
pub(crate) struct LogFlags {
    /// Format of the log, on standard error. `text`: a line for people. `json`: one JSON object per line, with `ts` (RFC 3339), `level`,
    /// `msg`, `target` and the fields of the message.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub log_format: Form,
    /// Log level: `error`, `warn`, `info`, `debug` or `trace`, or a filter by module such as `info,vim25=debug`. Default: the
    /// environment variable `RUST_LOG`, else `info`.
    #[arg(long, value_name = "LEVEL", value_parser = Verbosity::read)]
    pub log_level: Option<Verbosity>,
    /// File with the log level, read every second, such as a key of a mounted ConfigMap. While the file exists and is not empty, its
    /// level replaces that of --log-level.
    #[arg(long, value_name = "FILE")]
    pub log_level_file: Option<PathBuf>,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people.
    #[default]
    Text,
    /// For machines.
    Json,
}

/// How lines are written by now. Before the log is started, whoever runs a command reads what is said.
static FORM: OnceLock<Form> = OnceLock::new();

/// What has been written in the last minute.
#[derive(Clone, Default)]
pub(crate) struct Log {
    written: Arc<Mutex<Repeats<String>>>,
    form: Form,
}

/// How much is logged, and the file that says so.
pub(crate) struct Followed {
    file: Option<PathBuf>,
    start: Verbosity,
    handle: Handle,
}

impl Log {
    /// Begins to write to standard error.
    pub(crate) fn start(flags: &LogFlags) -> (Self, Followed) {
        let form = *FORM.get_or_init(|| flags.log_format);
        let log = Self { form, ..Self::default() };
        let start = Verbosity::at_start(flags.log_level.as_ref());
        let (filter, handle) = reload::Layer::new(start.filter());
        let has_colours = io::stderr().is_terminal() && env::var("NO_COLOR").map_or(true, |value| value.is_empty());
        let lines = Lines { log: log.clone(), text: format::format().with_ansi(has_colours) };
        let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr).event_format(lines).with_filter(filter);
        tracing_subscriber::registry().with(layer).init();
        (log, Followed { file: flags.log_level_file.clone(), start, handle })
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
        let counted = |(line, count): (String, usize)| match self.form {
            Form::Text => format!("{line} ({} in the last minute)", times(count)),
            Form::Json => json::counted(&line, count),
        };
        over.into_iter().map(counted).collect()
    }

    fn repeats(&self) -> MutexGuard<'_, Repeats<String>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Followed {
    /// Has the file say how much is logged, for as long as the operator runs.
    pub(crate) async fn follow(self) -> Infallible {
        match self.file {
            Some(file) => level::follow(file, self.start, self.handle).await,
            None => std::future::pending().await,
        }
    }
}

/// An object as lines name it: its namespace and name, or only its name where it is in none.
pub(crate) fn named(object: &impl ResourceExt) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// Says why the program fails, as the last thing that it says.
pub(crate) fn fail(error: &dyn Error) {
    let line = match FORM.get().copied().unwrap_or_default() {
        Form::Text => format!("drover: {error}"),
        Form::Json => {
            let error = json::field("error", &error.to_string());
            json::object(Timestamp::now(), Level::ERROR.as_str(), "Drover failed", env!("CARGO_CRATE_NAME"), &error)
        }
    };
    // Whoever reads it may have gone.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Lines, each if it is its time.
struct Lines {
    log: Log,
    text: Format,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let now = Timestamp::now();
        let line = match self.log.form {
            Form::Text => {
                let mut line = String::new();
                self.text.format_event(context, Writer::new(&mut line), event)?;
                line.trim_end_matches('\n').to_owned()
            }
            Form::Json => json::line(event, now),
        };
        // Who asks for more wants all of it.
        if *event.metadata().level() > Level::INFO {
            return writeln!(writer, "{line}");
        }
        let (cause, about) = about(event);
        match self.log.repeats().admit(cause, about, line, now) {
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
        written_as(Form::Text, say)
    }

    fn written_as(form: Form, say: impl FnOnce()) -> (Vec<String>, Vec<String>) {
        let (written, log) = (Written::default(), Log { form, ..Log::default() });
        let lines = Lines { log: log.clone(), text: format::format().with_ansi(false) };
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
                    warn!(group, error = format!("attempt {attempt} failed"), "Reconcile failed");
                }
            }
        });
        assert_eq!(at_once.len(), 2, "{at_once:?}");
        assert!(at_once[0].contains("Reconcile failed group=\"web-1\""), "{at_once:?}");
        assert_eq!(later.len(), 2, "{later:?}");
        for line in later {
            assert!(line.ends_with("error=\"attempt 41 failed\" (41 more times in the last minute)"), "{line}");
        }
    }

    #[test]
    fn another_cause_is_written_at_once() {
        let (at_once, later) = written(|| {
            for error in ["refused by 10.0.0.1", "refused by 10.0.0.2", "not trusted"] {
                warn!(vcenter = "lab", error, "vCenter not reachable");
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
    #[test]
    fn in_json_each_line_is_one_object_and_what_is_left_out_is_counted_in_it() {
        let (at_once, later) = written_as(Form::Json, || {
            for vm in 0..30 {
                let error = format!("\"{vm}\"\nwas refused");
                warn!(vmgroup = "ns/web", vm = format!("web-{vm}"), seconds = 1.5, error, "Operation refused");
            }
            debug!(vms = 3, is_all = true, "and more");
        });
        let read = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let (at_once, later): (Vec<_>, Vec<_>) = (at_once.iter().map(read).collect(), later.iter().map(read).collect());
        assert_eq!(at_once.len(), 4, "three of one cause: {at_once:?}");
        let first = &at_once[0];
        assert!(first["ts"].as_str().unwrap().ends_with('Z') && first["level"] == "warn", "{first}");
        assert_eq!(
            (&first["msg"], &first["vm"], &first["seconds"]),
            (&"Operation refused".into(), &"web-0".into(), &1.5.into())
        );
        assert_eq!(first["error"], "\"0\"\nwas refused");
        assert_eq!((&at_once[3]["vms"], &at_once[3]["is_all"]), (&3.into(), &true.into()));
        assert_eq!(later.len(), 1, "{later:?}");
        assert_eq!((&later[0]["repeated"], &later[0]["vm"]), (&27.into(), &"web-29".into()));
    }
}
