//! Complete replies, and the state of the connection after them.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::http;

/// The action on the connection after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionAction {
    /// It stays open for the next request.
    KeepAlive,
    /// It is closed.
    Close,
    /// It is reset.
    Reset,
}

/// A complete reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// A reply with a JSON body.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self { status, content_type: "application/json", headers: Vec::new(), body: body.to_string().into_bytes() }
    }

    /// A reply with status 200 and a text body.
    pub(crate) fn text(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, content_type, headers: Vec::new(), body: body.into() }
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The status line and the headers.
    pub(crate) fn head(&self) -> Vec<u8> {
        let length = self.body.len().to_string();
        let mut headers = vec![("content-type", self.content_type), ("content-length", length.as_str())];
        headers.extend(self.headers.iter().map(|(name, value)| (*name, value.as_str())));
        http::head(self.status, &headers)
    }

    /// Sends the reply in one write, with or without its body.
    pub(crate) async fn send(self, writer: &mut (impl AsyncWrite + Unpin), with_body: bool) -> io::Result<()> {
        let mut bytes = self.head();
        if with_body {
            bytes.extend_from_slice(&self.body);
        }
        writer.write_all(&bytes).await
    }
}
