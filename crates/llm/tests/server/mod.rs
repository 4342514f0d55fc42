//! A server for tests that does to a connection what real ones do: answer in pieces, stall, break
//! off, keep the connection or close it.

#![allow(dead_code, reason = "a shared module: each test target uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What the server does with one request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'a> {
    /// Sends these bytes as they are.
    Raw(&'a str),
    /// Sends them as one piece of a chunked body.
    Piece(&'a str),
    /// Says nothing more and keeps the connection.
    Stall,
    /// Closes the connection.
    Close,
}

/// The head of a chunked event stream.
pub(crate) const STREAM_HEAD: Step<'static> = Step::Raw(
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
);

/// The end of a chunked body.
pub(crate) const STREAM_END: Step<'static> = Step::Raw("0\r\n\r\n");

/// Serves its answers in order, one for each request, and keeps what it was asked.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    requests: Vec<String>,
}

impl Server {
    /// Starts on a free port of this machine.
    pub(crate) async fn start(answers: &[&[Step<'_>]]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let answers: VecDeque<Vec<Action>> =
            answers.iter().map(|steps| steps.iter().map(Action::from).collect()).collect();
        let answers = Arc::new(Mutex::new(answers));
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&seen);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                connections.spawn(serve(stream, Arc::clone(&shared), Arc::clone(&answers)));
            }
        });
        Self { address, seen, _tasks: tasks }
    }

    /// `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far, heads and bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().requests.clone()
    }

    /// How many connections were opened.
    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }
}

enum Action {
    Send(Vec<u8>),
    Stall,
    Close,
}

impl From<&Step<'_>> for Action {
    fn from(step: &Step<'_>) -> Self {
        match *step {
            Step::Raw(text) => Self::Send(text.as_bytes().to_vec()),
            Step::Piece(text) => Self::Send(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()),
            Step::Stall => Self::Stall,
            Step::Close => Self::Close,
        }
    }
}

async fn serve(
    mut stream: TcpStream,
    seen: Arc<Mutex<Seen>>,
    answers: Arc<Mutex<VecDeque<Vec<Action>>>>,
) {
    while let Some(request) = read_request(&mut stream).await {
        seen.lock().unwrap().requests.push(request);
        let answer = answers.lock().unwrap().pop_front();
        for action in answer.unwrap_or_default() {
            match action {
                // A client that has gone away is part of some tests.
                Action::Send(bytes) => drop(stream.write_all(&bytes).await),
                Action::Stall => std::future::pending().await,
                Action::Close => return,
            }
        }
    }
}

/// One request with its body; none when the client closed the connection.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
                })
                .unwrap_or(0_usize);
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(read) if read > 0 => bytes.extend_from_slice(&chunk[..read]),
            _ => return None,
        }
    }
}
