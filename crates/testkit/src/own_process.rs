//! Running a test in a separate process, for tests that measure their own process or that other
//! tests would disturb.

use std::any::type_name;
use std::env;
use std::process::Command;

/// Environment variable that contains the name of the test to run in this process.
const STARTED_FOR: &str = "TEST_IN_OWN_PROCESS";

/// Runs the body of a test in a separate process. The test can be in the same executable as all
/// other tests.
///
/// The process runs the same executable, but only this test. Call this function directly in the
/// test function, since the name of the test is derived from the type of `body`.
///
/// # Panics
///
/// If the test fails in the other process. The panic message contains the test's output.
pub fn in_own_process<F: FnOnce()>(body: F) {
    let (_, name) = type_name::<F>().split_once("::").unwrap();
    let (test, _) = name.split_once("::{{closure}}").unwrap();
    if env::var(STARTED_FOR).is_ok_and(|started| started == test) {
        return body();
    }
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(STARTED_FOR, test)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // Checks the output, since the process also succeeds if no test has this name.
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[cfg(test)]
mod tests {
    use std::panic;

    use super::*;

    #[test]
    fn the_body_runs_in_another_process() {
        let mut ran_here = false;
        in_own_process(|| ran_here = true);
        assert_eq!(ran_here, env::var(STARTED_FOR).is_ok());
    }

    #[test]
    fn a_failure_there_fails_the_test() {
        let outcome = panic::catch_unwind(|| in_own_process(|| panic!("there")));
        let failure = outcome.unwrap_err();
        if env::var(STARTED_FOR).is_ok() {
            panic::resume_unwind(failure);
        }
        let said = failure.downcast_ref::<String>().unwrap();
        assert!(said.contains("there"), "{said}");
    }
}
