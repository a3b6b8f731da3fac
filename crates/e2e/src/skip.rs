//! Tests that have nothing to do here say so, in a line that `hack/summary.sh` counts.

use std::{
    env,
    io::{self, Write},
    thread,
};

/// Says that the test that runs now is skipped, and why. In CI every test has to run, and this fails it.
#[track_caller]
pub(crate) fn say(reason: &str) {
    let line = line(thread::current().name().unwrap_or("a test"), reason);
    assert!(env::var_os("CI").is_none(), "{line}");
    // What is printed with a macro is only shown of tests that fail.
    let _ = io::stderr().write_all(line.as_bytes());
}

fn line(test: &str, reason: &str) -> String {
    format!("skipped: {test}: {}\n", reason.trim().replace('\n', "; "))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, process::Command};

    use crate::Sandbox;

    /// What `make test` says in the end, of programs that have printed this.
    fn summary(name: &str, ci: Option<&str>, logs: &[String]) -> (bool, String) {
        let dir = Sandbox::folder(name);
        fs::create_dir_all(&dir).unwrap();
        for (number, log) in logs.iter().enumerate() {
            fs::write(dir.join(format!("{number}.log")), log).unwrap();
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/summary.sh");
        let mut command = Command::new(script);
        command.arg(&dir).env_remove("CI").envs(ci.map(|ci| ("CI", ci)));
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    }

    fn result(passed: u32, failed: u32) -> String {
        format!(
            "test result: ok. {passed} passed; {failed} failed; 1 ignored; 0 measured; 0 filtered out; finished in 0s\n"
        )
    }

    #[test]
    fn a_skipped_test_is_named_and_does_not_count_as_passed() {
        let node = super::line("pods_run", "--node: only root can have one\ntry sudo\n");
        // A test that asks for two nodes says so twice.
        let logs = [format!("{node}{node}{}", result(3, 0)), result(4, 0)];
        let (is_well, said) = summary("summary-skipped", None, &logs);
        assert!(is_well);
        let name = "skipped: pods_run: --node: only root can have one; try sudo\n";
        let sum = "test result: 6 passed; 0 failed; 2 ignored; 1 skipped\n";
        assert_eq!(said, format!("{name}{sum}"));
        let in_ci = summary("summary-in-ci", Some("true"), &logs);
        assert_eq!(in_ci, (false, format!("{name}no test may be skipped in CI\n{sum}")));
    }

    #[test]
    fn without_skipped_tests_the_summary_is_the_sum() {
        let (is_well, said) = summary("summary-plain", Some("true"), &[result(3, 0), result(4, 2)]);
        assert_eq!((is_well, said.as_str()), (true, "test result: 7 passed; 2 failed; 2 ignored; 0 skipped\n"));
    }
}
