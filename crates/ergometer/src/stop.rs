//! Waits for the user to stop a run or a review.

use tokio::sync::watch;

/// Waits until the user stops; forever if the sender is gone.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|&stopped| stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
