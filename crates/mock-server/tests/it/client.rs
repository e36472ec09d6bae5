//! A client on plain sockets that shows every byte and how the connection ended.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Far longer than any test takes, so that a stuck test ends.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const CHAT_BODY: &str = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"how are you"}]}"#;
pub(crate) const WHOLE_BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"how are you"}]}"#;

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With the end of its body.
    Whole,
    /// The connection was closed before that.
    Closed,
    /// The connection was reset before that.
    Reset,
}

#[derive(Debug)]
pub(crate) struct Answer {
    /// 0 if no head was received.
    pub(crate) status: u16,
    pub(crate) head: String,
    /// The body, without its framing.
    pub(crate) body: Vec<u8>,
    pub(crate) ended: Ended,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The text after `data: ` of each event.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = self.text();
        text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The joined content of all chat chunks.
    pub(crate) fn content(&self) -> String {
        let chunks = self.events().into_iter().filter_map(|event| serde_json::from_str::<Value>(&event).ok());
        chunks.filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), buffer: Vec::new() }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends a request without waiting for its answer. Headers are lines.
    pub(crate) async fn send(&mut self, method: &str, path: &str, headers: &[&str], body: &str) {
        let headers = headers.iter().flat_map(|header| [header, "\r\n"]).collect::<String>();
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: mock\r\n{headers}content-length: {length}\r\n\r\n{body}");
        self.write(request.as_bytes()).await;
    }

    /// Reads until the body has at least this text, and leaves the rest.
    pub(crate) async fn read_until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.buffer).contains(text) {
            self.fill().await.unwrap_or_else(|ended| panic!("{ended:?} before {text:?}"));
        }
    }

    async fn fill(&mut self) -> Result<(), Ended> {
        match timeout(PATIENCE, self.stream.read_buf(&mut self.buffer)).await.expect("nothing came") {
            Ok(0) => Err(Ended::Closed),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(Ended::Reset),
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads one answer.
    pub(crate) async fn answer(&mut self) -> Answer {
        self.answer_to("GET").await
    }

    pub(crate) async fn answer_to(&mut self, method: &str) -> Answer {
        let mut answer = Answer { status: 0, head: String::new(), body: Vec::new(), ended: Ended::Whole };
        if let Err(ended) = self.read_into(&mut answer, method).await {
            answer.ended = ended;
        }
        answer
    }

    async fn read_into(&mut self, answer: &mut Answer, method: &str) -> Result<(), Ended> {
        answer.head = self.take_line(b"\r\n\r\n").await?.to_ascii_lowercase();
        answer.status = answer.head[9..12].parse().unwrap();
        let header = |name: &str| {
            let start = format!("{name}: ");
            answer.head.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
        };
        if let Some(length) = header("content-length") {
            let length: usize = if method == "HEAD" { 0 } else { length.parse().unwrap() };
            let whole = self.take(length).await;
            answer.body = whole.0;
            return whole.1;
        }
        if header("transfer-encoding").is_none() {
            return Ok(());
        }
        loop {
            let size = usize::from_str_radix(self.take_line(b"\r\n").await?.trim_end(), 16).unwrap();
            let (data, whole) = self.take(size).await;
            answer.body.extend(data);
            whole?;
            assert_eq!(self.take_line(b"\r\n").await?, "\r\n");
            if size == 0 {
                return Ok(());
            }
        }
    }

    async fn take_line(&mut self, end: &[u8]) -> Result<String, Ended> {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|window| window == end) {
                return Ok(String::from_utf8(self.buffer.drain(..at + end.len()).collect()).unwrap());
            }
            self.fill().await?;
        }
    }

    async fn take(&mut self, length: usize) -> (Vec<u8>, Result<(), Ended>) {
        while self.buffer.len() < length {
            if let Err(ended) = self.fill().await {
                return (std::mem::take(&mut self.buffer), Err(ended));
            }
        }
        (self.buffer.drain(..length).collect(), Ok(()))
    }
}

/// Sends one request on a new connection.
pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
    let mut client = Client::connect(address).await;
    client.send(method, path, headers, body).await;
    client.answer_to(method).await
}

/// Sends a request with a forced fault.
pub(crate) async fn ask_fault(address: SocketAddr, path: &str, fault: &str, body: &str) -> Answer {
    ask(address, "POST", path, &[&format!("x-mock-fault: {fault}")], body).await
}
