//! The user's wish to stop, which whoever runs or reviews waits for.

use tokio::sync::watch;

/// Waits until the user wants to stop; for ever where nobody can say so any more.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|&stopped| stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
