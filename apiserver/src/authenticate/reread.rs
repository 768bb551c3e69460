//! Follows files that an operator changes while the hub runs.

use std::{error::Error, path::Path, time::Duration};

use tokio_util::sync::CancellationToken;

/// Between two looks at a file. kube-apiserver looks each minute, and is told of changes in between.
const INTERVAL: Duration = Duration::from_secs(5);

/// Reads the file of the authorities of `what` again and again. Each trouble is told once.
pub(super) async fn follow<E: Error + 'static>(
    file: &Path,
    what: &'static str,
    read: impl Fn() -> Result<(), E>,
    shutdown: CancellationToken,
) {
    let mut is_failing = false;
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let done = read();
        if let Err(error) = &done
            && !is_failing
        {
            let error = dialect::error_chain(error);
            let file = file.display();
            tracing::warn!(%file, error, "cannot read the certificate authorities of {what}; keeping the previous ones");
        }
        is_failing = done.is_err();
    }
}
