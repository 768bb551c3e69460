//! Waiting for conditions, never for time.

use std::time::Duration;

/// How long [`eventually`] waits where the test does not say.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Between two looks at a condition: short against every deadline, long against the look itself.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Looks at a condition until it holds, and fails with the last reason after [`PATIENCE`].
///
/// `look` answers `Ok` with what it saw, or `Err` with why the condition does not hold yet.
pub async fn eventually<T, F>(what: &str, look: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    within(PATIENCE, what, look).await
}

/// [`eventually`], with its own deadline.
pub async fn within<T, F>(deadline: Duration, what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let end = tokio::time::Instant::now() + deadline;
    loop {
        match look().await {
            Ok(seen) => return seen,
            Err(reason) => assert!(
                tokio::time::Instant::now() < end,
                "not within {deadline:?}: {what}; last seen: {reason}"
            ),
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
