//! Running tests in their own processes, because they measure the process, or other tests would
//! disturb them.

use std::any::type_name;
use std::env;
use std::process::Command;

/// Environment variable that names the test for which a process was started.
const STARTED_FOR: &str = "TEST_IN_OWN_PROCESS";

/// Runs the body of a test in a separate process, so that the test can stay in the same executable
/// as all other tests.
///
/// The process runs the same executable for this test alone. Call this function directly from the
/// test, since the name of the test is taken from the function that contains `body`.
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
    // The process would also succeed if no test had this name.
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
