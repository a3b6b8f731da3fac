//! The two formats that metrics are served in, and which of them is asked for.

use std::fmt::Write;

/// How metrics are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus' own text, which everything reads that reads metrics.
    Prometheus,
    /// `OpenMetrics` text.
    OpenMetrics,
}

impl Format {
    /// What a request's Accept header asks for. `OpenMetrics` only where it is named, as other servers do it.
    pub(crate) fn accepted(accept: Option<&str>) -> Self {
        let is_wanted = |offer: &str| {
            let mut parts = offer.split(';').map(str::trim);
            parts.next() == Some("application/openmetrics-text")
                && !parts.any(|part| part.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0)))
        };
        let is_open = accept.is_some_and(|accept| accept.split(',').any(is_wanted));
        if is_open { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Turns `OpenMetrics` text into this format.
    pub(super) fn write(self, open: String) -> String {
        match self {
            Self::OpenMetrics => open,
            Self::Prometheus => prometheus(&open),
        }
    }
}

/// The same as Prometheus' own text: there, a counter's name has `_total` in all lines, and units and the end have none.
fn prometheus(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        if line.starts_with("# HELP ") {
            help = Some(line);
            continue;
        }
        let suffix = if line.starts_with("# TYPE ") && line.ends_with(" counter") { "_total" } else { "" };
        for line in help.take().into_iter().chain([line]) {
            match line.strip_prefix("# ").map(|rest| rest.splitn(3, ' ').collect::<Vec<_>>()).as_deref() {
                Some([what, name, rest]) => {
                    let _ = writeln!(text, "# {what} {name}{suffix} {rest}");
                }
                _ => {
                    let _ = writeln!(text, "{line}");
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_are_served_to_those_who_ask_for_them() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(Some(prometheus)), Format::OpenMetrics);
        for accept in [None, Some("*/*"), Some("text/plain"), Some("application/openmetrics-text;q=0, text/plain")] {
            assert_eq!(Format::accepted(accept), Format::Prometheus, "{accept:?}");
        }
    }

    #[test]
    fn a_counter_has_its_whole_name_in_prometheus_own_text() {
        let open = "# HELP a_calls Calls that have ended.\n# TYPE a_calls counter\na_calls_total{b=\"c\"} 1\n\
                    # HELP a_seconds Time.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\na_seconds_sum 1.0\n# EOF\n";
        let expected = "# HELP a_calls_total Calls that have ended.\n# TYPE a_calls_total counter\na_calls_total{b=\"c\"} 1\n\
                        # HELP a_seconds Time.\n# TYPE a_seconds histogram\na_seconds_sum 1.0\n";
        assert_eq!(Format::Prometheus.write(open.to_owned()), expected);
        assert_eq!(Format::OpenMetrics.write(open.to_owned()), open);
    }
}
