//! A model server on the loopback that answers from a script in a real wire format.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// One answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A text and the end of the turn.
    Text(String),
    /// A text and a named reason to stop.
    Stopped(String, &'static str),
    /// A text and then calls of tools.
    Calls(String, Vec<(&'static str, Value)>),
    /// Calls of tools, whole, and a named reason to stop that is not the calls.
    StoppedCalls(Vec<(&'static str, Value)>, &'static str),
    /// A text, and then nothing until the client goes away.
    Stall(String),
    /// A text, and its end once the gate is open.
    Held(String, Gate),
    /// A text in pieces, one every so often, without an end.
    Drip(String, Duration),
    /// Nothing but a status and a body.
    Status(u16, String),
    /// A text, and then the connection is cut.
    Cut(String),
}

/// What an answer waits for.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let is_open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(is_open, |is_open| !*is_open).unwrap());
    }
}

impl Answer {
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub fn call(name: &'static str, args: Value) -> Self {
        Self::Calls(String::new(), vec![(name, args)])
    }

    pub fn bash(command: &str) -> Self {
        Self::call("bash", json!({"command": command}))
    }
}

/// The server; it ends with the test process.
pub struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<Vec<Answer>>,
    requests: Mutex<Vec<Value>>,
    arrived: Condvar,
    context: Mutex<Option<u64>>,
}

impl Model {
    /// A server that gives these answers in turn, and the last one for ever.
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let mut answers: Vec<Answer> = answers.into_iter().collect();
        answers.reverse();
        let shared = Arc::new(Shared { answers: Mutex::new(answers), ..Shared::default() });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), Arc::clone(&server));
                // A client that goes away in the middle is part of many tests.
                std::thread::spawn(move || drop(serve(stream, &shared)));
            }
        });
        Self { address, shared }
    }

    /// Makes this the server of the built-in provider that speaks its format.
    pub fn point(&self, command: &mut Command) {
        command
            .env("ANTHROPIC_API_KEY", "sk-test-0123456789abcdef0123")
            .env("ANTHROPIC_BASE_URL", format!("http://{}", self.address));
    }

    /// Tells, once the model is loaded by a first request, that this is its context.
    pub fn with_context(self, tokens: u64) -> Self {
        *self.shared.context.lock().unwrap() = Some(tokens);
        self
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bodies of the requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Waits until this many requests have arrived.
    #[track_caller]
    pub fn wait_for(&self, count: usize) {
        let requests = self.shared.requests.lock().unwrap();
        let (requests, _) = self
            .shared
            .arrived
            .wait_timeout_while(requests, Duration::from_secs(20), |seen| seen.len() < count)
            .unwrap();
        assert!(requests.len() >= count, "only {} requests came", requests.len());
    }

    /// The texts that the user said in the last request.
    #[track_caller]
    pub fn last_user_text(&self) -> String {
        user_text(self.requests().last().expect("a request came"))
    }

    /// Results that went back in the last request, in order: text and whether it is an error.
    pub fn last_results(&self) -> Vec<(String, bool)> {
        self.results_in(self.requests().len() - 1)
    }

    /// The same in the request of that number, counted from 0.
    pub fn results_in(&self, number: usize) -> Vec<(String, bool)> {
        let messages = self.requests()[number]["messages"].as_array().unwrap().clone();
        let blocks = messages.last().unwrap()["content"].as_array().unwrap().clone();
        blocks
            .iter()
            .filter(|block| block["type"] == "tool_result")
            .map(|block| (text_of(&block["content"]), block["is_error"].as_bool().unwrap_or(false)))
            .collect()
    }
}

impl Shared {
    /// The models that are loaded, as a local server tells them.
    fn running(&self) -> Value {
        match *self.context.lock().unwrap() {
            Some(tokens) if !self.requests.lock().unwrap().is_empty() => {
                json!({"models": [{"name": "tiny:1b", "context_length": tokens}]})
            }
            _ => json!({"models": []}),
        }
    }
}

/// The texts of the last user message.
pub fn user_text(request: &Value) -> String {
    let messages = request["messages"].as_array().unwrap();
    let last = messages.iter().rfind(|message| message["role"] == "user").unwrap();
    text_of(&last["content"])
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("")
        }
        _ => String::new(),
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut input = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    loop {
        let mut head = String::new();
        while input.read_line(&mut head)? > 0 && !head.ends_with("\r\n\r\n") {}
        if head.is_empty() {
            return Ok(());
        }
        let length = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
            })
            .unwrap_or(0);
        let mut body = vec![0; length];
        input.read_exact(&mut body)?;
        if head.starts_with("GET /api/ps ") {
            let running = shared.running().to_string();
            respond(&mut out, 200, "application/json", running.as_bytes())?;
            continue;
        }
        if head.starts_with("GET ") {
            respond(&mut out, 200, "application/json", br#"{"data":[{"id":"tiny:1b"}]}"#)?;
            continue;
        }
        let number = {
            let mut requests = shared.requests.lock().unwrap();
            requests.push(serde_json::from_slice(&body).expect("a request is JSON"));
            shared.arrived.notify_all();
            requests.len()
        };
        let answer = {
            let mut answers = shared.answers.lock().unwrap();
            let last = answers.last().cloned().expect("a script has at least one answer");
            if answers.len() > 1 {
                answers.pop();
            }
            last
        };
        let is_chat = head.lines().next().unwrap_or_default().contains("/chat/completions");
        write_answer(&mut out, &answer, number, is_chat)?;
    }
}

fn respond(out: &mut TcpStream, status: u16, kind: &str, body: &[u8]) -> std::io::Result<()> {
    write!(out, "HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\n")?;
    write!(out, "content-length: {}\r\n\r\n", body.len())?;
    out.write_all(body)
}

fn write_answer(
    out: &mut TcpStream,
    answer: &Answer,
    number: usize,
    is_chat: bool,
) -> std::io::Result<()> {
    if let Answer::Status(status, body) = answer {
        return respond(out, *status, "application/json", body.as_bytes());
    }
    out.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    let mut wire = Wire { out, number, is_chat };
    wire.open()?;
    match answer {
        Answer::Text(text) => wire.text(0, text).and_then(|()| wire.close("end_turn")),
        Answer::Stopped(text, reason) => wire.text(0, text).and_then(|()| wire.close(reason)),
        Answer::Calls(text, calls) => {
            wire.text(0, text)?;
            wire.calls(calls)?;
            wire.close("tool_use")
        }
        Answer::StoppedCalls(calls, reason) => wire.calls(calls).and_then(|()| wire.close(reason)),
        Answer::Stall(text) => {
            wire.text(0, text)?;
            // Ends when the client hangs up.
            wire.out.read(&mut [0]).map(drop)
        }
        Answer::Held(text, gate) => {
            wire.text(0, text)?;
            gate.wait();
            wire.close("end_turn")
        }
        Answer::Drip(text, pause) => loop {
            wire.text(0, text)?;
            std::thread::sleep(*pause);
        },
        Answer::Cut(text) => {
            wire.text(0, text)?;
            wire.out.shutdown(std::net::Shutdown::Both)
        }
        Answer::Status(..) => unreachable!("answered above"),
    }
}

/// Writes one answer in the format that the request was made in.
struct Wire<'a> {
    out: &'a mut TcpStream,
    number: usize,
    is_chat: bool,
}

impl Wire<'_> {
    fn chunk(&mut self, text: &str) -> std::io::Result<()> {
        write!(self.out, "{:x}\r\n{text}\r\n", text.len())?;
        self.out.flush()
    }

    fn send(&mut self, payload: &Value) -> std::io::Result<()> {
        let text = match payload["type"].as_str().filter(|_| !self.is_chat) {
            Some(kind) => format!("event: {kind}\ndata: {payload}\n\n"),
            None => format!("data: {payload}\n\n"),
        };
        self.chunk(&text)
    }

    fn open(&mut self) -> std::io::Result<()> {
        if self.is_chat {
            return self.send(
                &json!({"id": "x", "choices": [{"index": 0, "delta": {"role": "assistant"}}]}),
            );
        }
        self.send(&json!({"type": "message_start", "message": {
            "id": format!("msg_{}", self.number), "type": "message", "role": "assistant",
            "content": [], "model": "m", "usage": {"input_tokens": 10, "output_tokens": 1}}}))?;
        self.send(&json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}))
    }

    fn text(&mut self, index: usize, text: &str) -> std::io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.is_chat {
            return self
                .send(&json!({"id": "x", "choices": [{"index": 0, "delta": {"content": text}}]}));
        }
        self.send(&json!({"type": "content_block_delta", "index": index,
            "delta": {"type": "text_delta", "text": text}}))
    }

    fn calls(&mut self, calls: &[(&'static str, Value)]) -> std::io::Result<()> {
        let mut calls = calls.iter().enumerate();
        calls.try_for_each(|(at, (name, args))| self.call(at, name, args))
    }

    fn call(&mut self, at: usize, name: &str, args: &Value) -> std::io::Result<()> {
        let id = format!("call_{}_{at}", self.number);
        let (head, tail) = split_in_two(args.to_string());
        if self.is_chat {
            self.send(&json!({"id": "x", "choices": [{"index": 0, "delta": {"tool_calls": [{
                "index": at, "id": id, "type": "function",
                "function": {"name": name, "arguments": head}}]}}]}))?;
            return self
                .send(&json!({"id": "x", "choices": [{"index": 0, "delta": {"tool_calls": [{
                "index": at, "function": {"arguments": tail}}]}}]}));
        }
        let index = at + 1;
        self.send(&json!({"type": "content_block_start", "index": index,
            "content_block": {"type": "tool_use", "id": id, "name": name, "input": {}}}))?;
        for piece in [head, tail] {
            self.send(&json!({"type": "content_block_delta", "index": index,
                "delta": {"type": "input_json_delta", "partial_json": piece}}))?;
        }
        self.send(&json!({"type": "content_block_stop", "index": index}))
    }

    fn close(&mut self, reason: &str) -> std::io::Result<()> {
        if self.is_chat {
            let reason = match reason {
                "tool_use" => "tool_calls",
                "max_tokens" => "length",
                _ => "stop",
            };
            self.send(&json!({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))?;
            self.send(&json!({"id": "x", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}))?;
            self.chunk("data: [DONE]\n\n")?;
        } else {
            self.send(&json!({"type": "content_block_stop", "index": 0}))?;
            self.send(&json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
                "usage": {"output_tokens": 5}}))?;
            self.send(&json!({"type": "message_stop"}))?;
        }
        self.out.write_all(b"0\r\n\r\n")
    }
}

fn split_in_two(text: String) -> (String, String) {
    let mut middle = text.len() / 2;
    while !text.is_char_boundary(middle) {
        middle -= 1;
    }
    (text[..middle].to_owned(), text[middle..].to_owned())
}
