//! What a recording keeps, and that a replay is the recorded run or says where it is not.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

mod mock;
mod server;

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use llm::conformance::conformance;
use llm::providers::{Connection, connect};
use llm::recording::{Header, Player, Recorder, RecordingError, Tape};
use llm::{
    ApiKey, ChatRequest, Completion, Dialect, LlmError, Message, Provider, Retry, RetryPolicy,
};
use serde_json::Value;
use server::{STREAM_END, STREAM_HEAD, Server, Step};
use wiremock::matchers::{body_string_contains, method};
use wiremock::{Mock, MockServer, ResponseTemplate};

const KEY: &str = "sk-test-0123456789abcdef0123";

/// A file in memory.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl File {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn tape(&self) -> Tape {
        Tape::Record(Arc::new(Recorder::new(Box::new(self.clone()))))
    }

    fn player(&self) -> Player {
        Player::new(&self.text()).unwrap()
    }
}

fn replay(player: Player) -> Tape {
    Tape::Replay(Arc::new(player))
}

/// A provider with the key, at `url`, past `tape`.
fn provider(dialect: Dialect, url: &str, tape: Tape) -> Arc<dyn Provider> {
    let key = Some(ApiKey::new(KEY).unwrap());
    connect(Connection { key, tape: Some(tape), ..Connection::new(dialect, url) }).unwrap()
}

/// A provider without a key, for which nothing listens.
fn offline(dialect: Dialect, tape: Tape) -> Arc<dyn Provider> {
    let connection = Connection::new(dialect, "http://127.0.0.1:1");
    connect(Connection { tape: Some(tape), ..connection }).unwrap()
}

fn request(prompt: &str) -> ChatRequest {
    ChatRequest {
        model: "test".into(),
        messages: vec![Arc::new(Message::user_text(prompt))],
        max_tokens: 100,
        ..ChatRequest::default()
    }
}

fn stream_of(dialect: Dialect, name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conformance");
    std::fs::read_to_string(folder.join(dialect.name()).join(format!("{name}.sse"))).unwrap()
}

/// Records one answer of the server to "ping".
async fn record(
    dialect: Dialect,
    answer: ResponseTemplate,
) -> (File, Result<Completion, LlmError>) {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    let file = File::default();
    let provider = provider(dialect, &server.uri(), file.tape());
    let answer = mock::ask(&*provider, &request("ping")).await;
    (file, answer)
}

async fn recorded_pong(dialect: Dialect) -> File {
    let (file, answer) = record(dialect, mock::stream(&stream_of(dialect, "text"))).await;
    assert_eq!(answer.unwrap().commit().unwrap().text(), "pong");
    file
}

#[tokio::test]
async fn a_whole_run_in_every_dialect_is_the_same_without_server_and_key() {
    for dialect in Dialect::ALL {
        let server = MockServer::start().await;
        for (part, name) in [
            ("Reply with exactly", "text"),
            ("Oslo and Lima", "two_calls"),
            ("-3°C, snow", "answer"),
            ("Weather in Oslo?", "call"),
        ] {
            let answer = mock::stream(&stream_of(dialect, name));
            let given = Mock::given(body_string_contains(part));
            given.respond_with(answer).mount(&server).await;
        }
        let file = File::default();
        let live = conformance(provider(dialect, &server.uri(), file.tape()), "test").await;
        assert!(live.is_good(), "{live:?}");
        let replayed = conformance(offline(dialect, replay(file.player())), "test").await;
        assert_eq!(replayed, live);
    }
}

#[tokio::test]
async fn a_recording_holds_the_request_and_the_raw_answer() {
    let file = recorded_pong(Dialect::Anthropic).await;
    let lines = file.lines();
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..3], ["recording", "request", "answer"]);
    assert_eq!(kinds.last(), Some(&"end"));
    assert_eq!((&lines[1]["method"], &lines[1]["path"]), (&"POST".into(), &"/v1/messages".into()));
    let body: Value = serde_json::from_str(lines[1]["body"].as_str().unwrap()).unwrap();
    assert_eq!(body["model"], "test");
    assert_eq!(lines[2]["headers"]["content-type"], "text/event-stream");
    let bytes: String = lines.iter().filter_map(|line| line["bytes"].as_str()).collect();
    assert_eq!(bytes, stream_of(Dialect::Anthropic, "text"));
}

#[tokio::test]
async fn no_key_is_in_the_file_whatever_the_server_sends_back() {
    let echo = ResponseTemplate::new(401)
        .insert_header("retry-after", format!("after {KEY}"))
        .insert_header("set-cookie", format!("key={KEY}"))
        .set_body_string(format!("{{\"error\":{{\"message\":\"wrong key {KEY}\"}}}}"));
    for dialect in Dialect::ALL {
        let (file, answer) = record(dialect, echo.clone()).await;
        answer.unwrap_err();
        assert!(!file.text().contains(KEY), "{}", file.text());
        assert!(file.text().contains("wrong key [key removed]"), "{}", file.text());
        let headers = &file.lines()[2]["headers"];
        assert_eq!((headers.get("set-cookie"), headers.get("retry-after")), (None, None));
    }
    let said = stream_of(Dialect::OpenaiChat, "text").replace("pong", KEY);
    let (half, rest) = said.split_at(said.find(KEY).unwrap() + 9);
    let steps = [STREAM_HEAD, Step::Piece(half), Step::Piece(rest), STREAM_END];
    let server = Server::start(&[&steps]).await;
    let file = File::default();
    let live = provider(Dialect::OpenaiChat, &server.url(), file.tape());
    let mut request = request("ping");
    request.system = Some(format!("the key is {KEY}"));
    let answer = mock::ask(&*live, &request).await.unwrap();
    assert_eq!(answer.commit().unwrap().text(), KEY, "the run itself is not changed");
    assert!(!file.text().contains(KEY) && !file.text().contains("sk-test"), "{}", file.text());
}

#[tokio::test]
async fn a_request_that_differs_is_named_with_the_place() {
    let file = recorded_pong(Dialect::Anthropic).await;
    let provider = offline(Dialect::Anthropic, replay(file.player()));
    let error = mock::ask(&*provider, &request("pang")).await.unwrap_err();
    let LlmError::Recording(RecordingError::Differs { request: 1, difference }) = &error else {
        panic!("{error:?}")
    };
    assert!(difference.path.as_ref().unwrap().starts_with("messages[0].content"), "{difference:?}");
    assert!(difference.recorded.contains("ping") && difference.sent.contains("pang"));
    assert_eq!((error.kind(), error.is_retryable()), ("recording", false));
}

#[tokio::test]
async fn another_dialect_and_a_request_too_many_are_named() {
    let file = recorded_pong(Dialect::Anthropic).await;
    let other = offline(Dialect::OpenaiChat, replay(file.player()));
    let error = mock::ask(&*other, &request("ping")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "request 1 was recorded as POST /v1/messages in the format 'anthropic', \
         and now it is POST /chat/completions in the format 'openai-chat'"
    );
    let same = offline(Dialect::Anthropic, replay(file.player()));
    mock::ask(&*same, &request("ping")).await.unwrap();
    let error = mock::ask(&*same, &request("ping")).await.unwrap_err();
    assert!(
        matches!(error, LlmError::Recording(RecordingError::Over { requests: 1 })),
        "{error:?}"
    );
}

#[tokio::test]
async fn failed_attempts_are_replayed_and_not_waited_for() {
    let server = MockServer::start().await;
    let busy =
        ResponseTemplate::new(529).insert_header("retry-after", "200").set_body_string("busy");
    Mock::given(method("POST")).respond_with(busy).up_to_n_times(1).mount(&server).await;
    let pong = mock::stream(&stream_of(Dialect::Anthropic, "text"));
    Mock::given(method("POST")).respond_with(pong).mount(&server).await;
    let file = File::default();
    let live = provider(Dialect::Anthropic, &server.uri(), file.tape());
    mock::ask(&*live, &request("ping")).await.unwrap_err();
    mock::ask(&*live, &request("ping")).await.unwrap();

    let offline = offline(Dialect::Anthropic, replay(file.player()));
    let retry = Retry::new(offline, RetryPolicy::default()).without_delays();
    let request = request("ping");
    let answer = tokio::time::timeout(Duration::from_secs(60), mock::ask(&retry, &request));
    assert_eq!(answer.await.unwrap().unwrap().commit().unwrap().text(), "pong");
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_cut_off_again() {
    let text = stream_of(Dialect::Anthropic, "text");
    let half = &text[..text.len() / 2];
    let server = Server::start(&[&[STREAM_HEAD, Step::Piece(half), Step::Close]]).await;
    let file = File::default();
    let live = provider(Dialect::Anthropic, &server.url(), file.tape());
    let error = mock::ask(&*live, &request("ping")).await.unwrap_err();
    assert!(matches!(error, LlmError::UnexpectedEof), "{error:?}");
    let offline = offline(Dialect::Anthropic, replay(file.player()));
    let error = mock::ask(&*offline, &request("ping")).await.unwrap_err();
    assert!(matches!(error, LlmError::UnexpectedEof), "{error:?}");
}

#[tokio::test]
async fn a_connection_that_was_refused_is_told_as_recorded() {
    let file = File::default();
    let live = provider(Dialect::Anthropic, "http://127.0.0.1:1", file.tape());
    let live = mock::ask(&*live, &request("ping")).await.unwrap_err();
    let offline = offline(Dialect::Anthropic, replay(file.player()));
    let replayed = mock::ask(&*offline, &request("ping")).await.unwrap_err();
    assert_eq!(replayed.to_string(), format!("as recorded: {live}"));
    assert_eq!(replayed.is_retryable(), live.is_retryable());
}

#[tokio::test]
async fn what_was_read_before_the_reader_left_is_in_the_file() {
    let text = stream_of(Dialect::Anthropic, "text");
    let half = &text[..text.find("event: content_block_stop").unwrap()];
    let server = Server::start(&[&[STREAM_HEAD, Step::Piece(half), Step::Stall]]).await;
    let file = File::default();
    let live = provider(Dialect::Anthropic, &server.url(), file.tape());
    let mut stream = live.stream(&request("ping")).await.unwrap();
    while !matches!(stream.next().await, Some(Ok(llm::StreamEvent::Text { .. }))) {}
    drop(stream);
    let lines = file.lines();
    let bytes: String = lines.iter().filter_map(|line| line["bytes"].as_str()).collect();
    assert_eq!(bytes, half);
    assert_eq!(lines.last().unwrap()["type"], "chunk");
}

#[tokio::test]
async fn a_run_in_another_folder_and_session_is_the_same_run() {
    let about = |cwd: &str, session: &str| {
        let mut request = request("ping");
        request.system = Some(format!("Workspace: {cwd}\nSession: {session}\n"));
        request
    };
    let text = stream_of(Dialect::OpenaiChat, "text").replace("pong", "look in /srv/one/src");
    let server = mock::server("/chat/completions", mock::stream(&text)).await;
    let file = File::default();
    let Tape::Record(recorder) = file.tape() else { unreachable!("it records") };
    let header = Header {
        cwd: Some("/srv/one".into()),
        session_id: Some("s-1".into()),
        ..Header::default()
    };
    recorder.begin(header).unwrap();
    let live = provider(Dialect::OpenaiChat, &server.uri(), Tape::Record(recorder));
    mock::ask(&*live, &about("/srv/one", "s-1")).await.unwrap();

    let moved = replay(file.player().moved_to("/opt/copy", "s-2"));
    let offline = offline(Dialect::OpenaiChat, moved);
    let answer = mock::ask(&*offline, &about("/opt/copy", "s-2")).await.unwrap();
    assert_eq!(answer.commit().unwrap().text(), "look in /opt/copy/src");
}

#[tokio::test]
async fn calls_that_a_server_leaves_unnamed_have_the_same_ids_in_a_replay() {
    let ids = |answer: Completion| {
        let message = answer.commit().unwrap();
        message.tool_calls().map(|call| call.id.to_owned()).collect::<Vec<_>>()
    };
    let stream = mock::stream(&stream_of(Dialect::Gemini, "two_calls"));
    let (file, live) = record(Dialect::Gemini, stream).await;
    let offline = offline(Dialect::Gemini, replay(file.player()));
    let replayed = ids(mock::ask(&*offline, &request("ping")).await.unwrap());
    assert_eq!(replayed.len(), 2);
    assert_eq!(replayed, ids(live.unwrap()));
}

/// A file on a full disk.
struct Full;

impl Write for Full {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_recording_that_cannot_be_written_ends_the_run() {
    let server = mock::server("/v1/messages", mock::stream(&stream_of(Dialect::Anthropic, "text")));
    let tape = Tape::Record(Arc::new(Recorder::new(Box::new(Full))));
    let live = provider(Dialect::Anthropic, &server.await.uri(), tape);
    let error = mock::ask(&*live, &request("ping")).await.unwrap_err();
    assert!(matches!(error, LlmError::Recording(RecordingError::Write(_))), "{error:?}");
}
