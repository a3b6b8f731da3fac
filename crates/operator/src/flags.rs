//! The operator's flags. Those that Go's `flag` package takes are taken in all of its forms.

use clap::{ArgAction, Args};

/// How the operator is to run.
#[derive(Args, Debug)]
pub struct Flags {
    /// Connect to vCenter without checking its certificate: anybody on the way can read the password.
    #[arg(
        long,
        value_name = "true|false",
        action = ArgAction::Set,
        value_parser = truth,
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        hide_default_value = true
    )]
    pub insecure: bool,
}

/// The arguments as they are read here. Go's flags have one dash, and so people write them: `-insecure`.
pub fn with_two_dashes(argument: String) -> String {
    match argument.strip_prefix('-') {
        Some(flag) if flag.len() > 1 && !flag.starts_with('-') => format!("-{argument}"),
        _ => argument,
    }
}

/// What Go takes for a bool.
fn truth(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it is neither true nor false"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn parse(line: &str) -> Result<Flags, String> {
        let words = line.split_whitespace().map(ToOwned::to_owned).map(with_two_dashes);
        let parsed = Line::try_parse_from(std::iter::once("drover".to_owned()).chain(words));
        parsed.map(|line| line.flags).map_err(|error| error.to_string())
    }

    #[test]
    fn a_bool_is_written_as_in_go() {
        for (line, insecure) in [
            ("", false),
            ("-insecure", true),
            ("--insecure", true),
            ("-insecure=true", true),
            ("--insecure=T", true),
            ("-insecure=false", false),
            ("--insecure=0", false),
        ] {
            assert_eq!(parse(line).unwrap().insecure, insecure, "{line}");
        }
        let refused = parse("--insecure=maybe").unwrap_err();
        assert!(refused.contains("neither true nor false"), "{refused}");
    }
}
