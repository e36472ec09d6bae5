//! Writes the events of a session in a separate thread, so that a slow disk does not delay requests.
//!
//! An acknowledged entry is with the operating system, so it survives the end of this process. Other entries are written
//! within a millisecond. Waiting entries are written in one call. After the first error nothing more is written, and the
//! file is truncated to its last complete line.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ergometer_clients::redact::Secrets;
use tokio::sync::oneshot;

use super::entry::LONGEST_LINE;
use super::{Entry, JournalError};

/// An entry to write, and a channel to acknowledge it.
struct Message {
    entry: Entry,
    written: Option<oneshot::Sender<()>>,
}

/// Writes the events of a session.
#[derive(Debug)]
pub struct JournalWriter {
    sender: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<Mutex<Option<JournalError>>>,
    /// The number of entries that are not written yet.
    waiting: Arc<AtomicUsize>,
    path: PathBuf,
}

/// The largest write; further entries wait for the next.
const LARGEST_WRITE: usize = 1 << 20;

/// Entries without acknowledgement are collected for this long. At ten thousand requests per second, waking the thread for
/// each of them costs more than writing them.
const MOMENT: Duration = Duration::from_millis(1);

/// With more unwritten entries than this, [`JournalWriter::queue`] waits.
const MOST_WAITING: usize = 4096;

impl JournalWriter {
    /// Creates a file, which must not exist.
    pub fn create(path: &Path, secrets: Secrets) -> Result<Self, JournalError> {
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        Self::start(file.map_err(JournalError::io("create", path))?, path, secrets)
    }

    fn start(file: File, path: &Path, secrets: Secrets) -> Result<Self, JournalError> {
        let (sender, receiver) = mpsc::channel();
        let (failure, waiting) = (Arc::default(), Arc::default());
        let (path, shared) = (path.to_path_buf(), Arc::clone(&failure));
        let writer = WriterThread {
            file,
            path: path.clone(),
            whole: 0,
            failure: shared,
            waiting: Arc::clone(&waiting),
            secrets,
        };
        let builder = std::thread::Builder::new().name(String::from("ergo-journal"));
        let thread = builder.spawn(move || writer.run(&receiver)).map_err(|cause| {
            let cause = std::io::Error::new(cause.kind(), format!("cannot start a thread: {cause}"));
            JournalError::Io { action: "write", path: path.clone(), cause }
        })?;
        Ok(Self { sender: Some(sender), thread: Some(thread), failure, waiting, path })
    }

    /// Queues an entry. The next [`write`](Self::write) or [`queue`](Self::queue) reports an error.
    pub fn append(&self, entry: Entry) {
        self.send(Message { entry, written: None });
    }

    /// Queues an entry, and waits for it if too many are unwritten. Reports earlier errors.
    pub async fn queue(&self, entry: Entry) -> Result<(), JournalError> {
        if self.waiting.load(Ordering::Relaxed) > MOST_WAITING {
            return self.write(entry).await;
        }
        if self.send(Message { entry, written: None }) { Ok(()) } else { Err(self.failure()) }
    }

    /// Writes an entry and all entries before it, and waits for them.
    pub async fn write(&self, entry: Entry) -> Result<(), JournalError> {
        let (written, done) = oneshot::channel();
        // An entry that cannot be sent is dropped with its channel, so `done` does not wait.
        let is_sent = self.send(Message { entry, written: Some(written) });
        if is_sent && done.await.is_ok() { Ok(()) } else { Err(self.failure()) }
    }

    /// Sends an entry to the thread; returns whether the thread still runs.
    fn send(&self, message: Message) -> bool {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.sender.as_ref().is_some_and(|sender| sender.send(message).is_ok())
    }

    /// Writes the remaining entries and syncs the file to disk.
    pub fn finish(mut self) -> Result<(), JournalError> {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Why nothing more is written. It can be called repeatedly.
    fn failure(&self) -> JournalError {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let cause = match &*failure {
            Some(JournalError::Io { cause, .. }) => {
                cause.raw_os_error().map_or_else(|| cause.kind().into(), std::io::Error::from_raw_os_error)
            }
            _ => std::io::Error::other("the journal thread ended"),
        };
        JournalError::Io { action: "write", path: self.path.clone(), cause }
    }
}

struct WriterThread {
    file: File,
    path: PathBuf,
    /// The length of the file up to its last complete line.
    whole: u64,
    failure: Arc<Mutex<Option<JournalError>>>,
    waiting: Arc<AtomicUsize>,
    /// Values that must not be written.
    secrets: Secrets,
}

impl WriterThread {
    fn run(mut self, receiver: &mpsc::Receiver<Message>) {
        let (mut lines, mut waiting) = (Vec::new(), Vec::new());
        while let Ok(first) = receiver.recv() {
            if first.written.is_none() {
                std::thread::sleep(MOMENT);
            }
            let mut taken = 0;
            let mut next = Some(first);
            while let Some(mut message) = next {
                message.entry.redact(&self.secrets);
                message.entry.write_line_within(LONGEST_LINE, &mut lines);
                waiting.extend(message.written);
                taken += 1;
                next = if lines.len() < LARGEST_WRITE { receiver.try_recv().ok() } else { None };
            }
            self.waiting.fetch_sub(taken, Ordering::Relaxed);
            if let Err(cause) = self.file.write_all(&lines) {
                self.cut(&lines);
                self.fail("write", cause);
                return;
            }
            self.whole += lines.len() as u64;
            lines.clear();
            waiting.drain(..).for_each(|written| {
                let _ = written.send(());
            });
        }
        if let Err(cause) = self.file.sync_data() {
            self.fail("write", cause);
        }
    }

    /// Truncates the file to its last complete line.
    fn cut(&self, lines: &[u8]) {
        let written = self.file.metadata().map_or(0, |metadata| metadata.len().saturating_sub(self.whole));
        let written = usize::try_from(written).unwrap_or(usize::MAX).min(lines.len());
        let whole = lines[..written].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end as u64 + 1);
        let _ = self.file.set_len(self.whole + whole);
    }

    fn fail(&self, action: &'static str, cause: std::io::Error) {
        let error = JournalError::Io { action, path: self.path.clone(), cause };
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use super::super::SessionEvents;
    use super::*;
    use crate::testing::exchange;
    use ergometer_runs::Closing;

    #[tokio::test]
    async fn acknowledged_entries_are_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let writer = JournalWriter::create(&path, Secrets::default()).unwrap();
        for request in 0..100 {
            writer.append(Entry::Sent { request, index: request, sent: exchange(0, 5).sent });
            writer.write(Entry::Ended(Box::new(exchange(request, 1000)))).await.unwrap();
            let lines = std::fs::read_to_string(&path).unwrap().lines().count() as u64;
            assert_eq!(lines, 2 * (request + 1));
        }
        writer.append(Entry::Closed(Closing::Finished));
        writer.finish().unwrap();
        assert_eq!(SessionEvents::read(&path).unwrap().closed, Some(Closing::Finished));
        assert!(JournalWriter::create(&path, Secrets::default()).is_err(), "an existing journal is never overwritten");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_full_disk_is_reported() {
        let path = Path::new("/dev/full");
        let file = OpenOptions::new().append(true).open(path).unwrap();
        let writer = JournalWriter::start(file, path, Secrets::default()).unwrap();
        let error = writer.write(Entry::Closed(Closing::Finished)).await.unwrap_err();
        assert!(error.is_disk_full() && error.to_string().contains("the disk is full"), "{error}");
        assert!(writer.write(Entry::Closed(Closing::Finished)).await.unwrap_err().is_disk_full(), "reported again");
        assert!(writer.queue(Entry::Closed(Closing::Finished)).await.unwrap_err().is_disk_full());
        assert!(writer.finish().unwrap_err().is_disk_full());
    }

    #[tokio::test]
    async fn queued_entries_are_in_the_file_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let writer = JournalWriter::create(&path, Secrets::default()).unwrap();
        for request in 0..10_000 {
            writer.queue(Entry::Ended(Box::new(exchange(request, 1000)))).await.unwrap();
        }
        writer.finish().unwrap();
        let mut numbers = Vec::new();
        SessionEvents::read_with(&path, |exchange| numbers.push(exchange.request)).unwrap();
        assert!(numbers.into_iter().eq(0..10_000));
    }

    #[tokio::test]
    async fn secrets_in_answers_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let writer = JournalWriter::create(&path, Secrets::new(["sk-\"secret\""])).unwrap();
        let mut echoed = exchange(0, 1000);
        let echo = String::from("your key: sk-\"secret\", SK-\"SECRET\", sk-%22secret%22");
        let transcript = &mut echoed.transcript;
        (transcript.text, transcript.reasoning, transcript.tool_calls) = (echo.clone(), echo.clone(), echo.clone());
        transcript.finish = Some(echo.clone());
        echoed.outcome =
            ergometer_clients::Outcome::Failed { kind: ergometer_clients::FailureKind::MidStream, cause: echo };
        writer.write(Entry::Ended(Box::new(echoed))).await.unwrap();
        writer.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.to_lowercase().contains("secret") && text.contains("your key: <redacted>"), "{text}");
    }
}
