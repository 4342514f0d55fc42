//! A server that nobody should reach: it writes down who comes and what they say first.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The listener; it ends with the test process.
pub struct Listener {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut heads = seen.lock().unwrap();
                heads.push(String::new());
                let last = heads.last_mut().unwrap();
                // Whoever comes without a word has come all the same.
                drop(answer(stream.unwrap(), last));
            }
        });
        Self { address, heads }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What each visitor said first: the head of a request, or nothing.
    pub fn visitors(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// Reads the head of a request and refuses it for good.
fn answer(stream: TcpStream, head: &mut String) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut input = BufReader::new(stream.try_clone()?);
    while input.read_line(head)? > 0 && !head.ends_with("\r\n\r\n") {}
    let mut out = stream;
    out.write_all(b"HTTP/1.1 400 x\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
}
