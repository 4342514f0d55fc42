//! What the network does to a request: stalls, cuts, pages, redirects, kept connections.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

mod server;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use llm::providers::{Connection, connect};
use llm::{
    ApiKey, ChatRequest, Completion, Deadline, Deadlines, Dialect, ErrorClass, FinishReason,
    LlmError, Message, Provider, collect,
};
use server::{STREAM_END, STREAM_HEAD, Server, Step};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

const KEY: &str = "sk-test-0123456789abcdef0123";
const HELLO: Step<'_> = Step::Piece(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"finish_reason\":null}]}\n\n",
);
const STOP: Step<'_> =
    Step::Piece("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
const DONE: Step<'_> = Step::Piece("data: [DONE]\n\n");

fn request() -> ChatRequest {
    ChatRequest {
        model: "m".into(),
        messages: vec![Arc::new(Message::user_text("hi"))],
        ..ChatRequest::default()
    }
}

fn provider(base_url: &str) -> Arc<dyn Provider> {
    patient(base_url, Deadlines::default())
}

fn patient(base_url: &str, deadlines: Deadlines) -> Arc<dyn Provider> {
    let key = Some(ApiKey::new(KEY).unwrap());
    connect(Connection { key, deadlines, ..Connection::new(Dialect::OpenaiChat, base_url) })
        .unwrap()
}

async fn ask(provider: &dyn Provider) -> Result<Completion, LlmError> {
    collect(provider.stream(&request()).await?).await
}

async fn error(steps: &[Step<'_>]) -> LlmError {
    let server = Server::start(&[steps]).await;
    ask(&*provider(&server.url())).await.expect_err("the answer is broken")
}

/// Deadlines that never pass in a test, but for what `change` makes short.
fn deadlines(change: impl FnOnce(&mut Deadlines)) -> Deadlines {
    let minute = Duration::from_secs(60);
    let mut deadlines = Deadlines { connect: minute, idle: minute, total: minute };
    change(&mut deadlines);
    deadlines
}

#[track_caller]
fn is_deadline(error: &LlmError, want: Deadline) {
    assert!(matches!(error, LlmError::Deadline { deadline, .. } if *deadline == want), "{error:?}");
}

#[tokio::test]
async fn answers_follow_each_other_on_one_connection() {
    let answer: &[Step<'_>] = &[STREAM_HEAD, HELLO, STOP, DONE, STREAM_END];
    let server = Server::start(&[answer; 3]).await;
    let provider = provider(&server.url());
    for _ in 0..3 {
        let completion = ask(&*provider).await.unwrap();
        assert_eq!(completion.finish, FinishReason::EndTurn);
    }
    assert_eq!((server.requests().len(), server.connections()), (3, 1));
}

#[tokio::test]
async fn a_server_that_never_answers_ends_through_the_idle_deadline() {
    let server = Server::start(&[&[Step::Stall]]).await;
    let short = deadlines(|d| d.idle = Duration::from_millis(50));
    is_deadline(&ask(&*patient(&server.url(), short)).await.unwrap_err(), Deadline::Idle);
}

#[tokio::test]
async fn a_body_that_stalls_ends_through_the_idle_deadline_after_what_it_said() {
    let server = Server::start(&[&[STREAM_HEAD, HELLO, Step::Stall]]).await;
    let short = deadlines(|d| d.idle = Duration::from_millis(50));
    let provider = patient(&server.url(), short);
    let mut stream = provider.stream(&request()).await.unwrap();
    assert!(
        matches!(stream.next().await, Some(Ok(llm::StreamEvent::Text { text, .. })) if text == "hello")
    );
    is_deadline(&stream.next().await.unwrap().unwrap_err(), Deadline::Idle);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_stalled_error_body_still_tells_its_status() {
    let head = Step::Raw("HTTP/1.1 503 Busy\r\ncontent-length: 99\r\n\r\nthe start");
    let server = Server::start(&[&[head, Step::Stall]]).await;
    let short = deadlines(|d| d.idle = Duration::from_millis(50));
    let error = ask(&*patient(&server.url(), short)).await.unwrap_err();
    assert_eq!(error.to_string(), "HTTP 503: the start");
}

#[tokio::test]
async fn the_whole_answer_has_a_deadline_of_its_own() {
    let server = Server::start(&[&[STREAM_HEAD, HELLO, Step::Stall]]).await;
    let short = deadlines(|d| d.total = Duration::from_millis(50));
    is_deadline(&ask(&*patient(&server.url(), short)).await.unwrap_err(), Deadline::Total);
}

#[tokio::test]
async fn a_handshake_that_stalls_ends_through_the_connect_deadline() {
    // The system accepts the connection into the backlog; nobody ever speaks TLS.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let short = deadlines(|d| d.connect = Duration::from_millis(50));
    is_deadline(&ask(&*patient(&url, short)).await.unwrap_err(), Deadline::Connect);
}

#[tokio::test]
async fn a_refused_connection_names_the_server_and_the_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = ask(&*provider(&format!("http://user:pw@{address}/v1?key=k"))).await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(error.kind(), "network");
    let message = error.to_string();
    assert!(message.starts_with(&format!("cannot reach http://{address}: ")), "{message}");
    assert!(message.contains("refused"), "{message}");
}

#[tokio::test]
async fn a_connection_cut_inside_the_answer_is_an_unexpected_end() {
    let cut = error(&[STREAM_HEAD, HELLO, Step::Close]).await;
    assert!(matches!(cut, LlmError::UnexpectedEof), "{cut:?}");
    let head = Step::Raw(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\n",
    );
    let short = error(&[head, Step::Raw("data: x\n\n"), Step::Close]).await;
    assert!(matches!(short, LlmError::UnexpectedEof), "{short:?}");
    assert!(short.is_retryable());
}

#[tokio::test]
async fn an_answer_that_was_complete_before_the_cut_counts() {
    let server = Server::start(&[&[STREAM_HEAD, HELLO, STOP, Step::Close]]).await;
    let completion = ask(&*provider(&server.url())).await.unwrap();
    assert_eq!(completion.finish, FinishReason::EndTurn);
}

#[tokio::test]
async fn an_empty_success_is_an_unexpected_end() {
    for head in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 0\r\n\r\n",
    ] {
        let empty = error(&[Step::Raw(head)]).await;
        assert!(matches!(empty, LlmError::UnexpectedEof), "{empty:?}");
    }
}

#[tokio::test]
async fn a_page_with_status_200_is_named_as_what_it_is() {
    let page = "<!DOCTYPE html><html><body><h1>Gateway</h1></body></html>";
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: Text/HTML; charset=utf-8\r\ncontent-length: {}\r\n\r\n",
        page.len()
    );
    let error = error(&[Step::Raw(&head), Step::Raw(page)]).await;
    assert!(matches!(error, LlmError::Decode(_)), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("Text/HTML") && message.contains("Gateway"), "{message}");
}

#[tokio::test]
async fn an_error_object_with_status_200_holds_no_key() {
    let body =
        format!(r#"{{"error":{{"message":"bad key {KEY}","type":"invalid_request_error"}}}}"#);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let error = error(&[Step::Raw(&head), Step::Raw(&body)]).await;
    let LlmError::Api { kind, message, .. } = &error else { panic!("{error:?}") };
    assert_eq!(
        (kind.as_str(), message.as_str()),
        ("invalid_request_error", "bad key [key removed]")
    );
}

#[tokio::test]
async fn a_compressed_answer_says_so() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n";
    let message = error(&[Step::Raw(head)]).await.to_string();
    assert!(message.contains("compressed (gzip)"), "{message}");
}

#[tokio::test]
async fn a_key_that_comes_back_in_a_header_is_not_told() {
    for header in ["content-type: text/html; of=", "content-encoding: "] {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{header}{KEY}\r\ncontent-length: 0\r\n\r\n"
        );
        let head = match header.starts_with("content-type") {
            true => head.replace("content-type: text/event-stream\r\n", ""),
            false => head,
        };
        let message = error(&[Step::Raw(&head)]).await.to_string();
        assert!(message.contains("[key removed]") && !message.contains(KEY), "{message}");
    }
}

#[tokio::test]
async fn the_key_does_not_follow_a_redirect() {
    let other = Server::start(&[]).await;
    let head = format!(
        "HTTP/1.1 307 Go\r\nlocation: {}/v1?token=t\r\ncontent-length: 0\r\n\r\n",
        other.url()
    );
    let error = error(&[Step::Raw(&head)]).await;
    assert!(
        matches!(error, LlmError::Http { status: 307, class: ErrorClass::Redirect, .. }),
        "{error:?}"
    );
    assert_eq!(error.to_string(), format!("HTTP 307: the server redirects to {}/v1", other.url()));
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn a_huge_error_body_is_not_read_to_its_end() {
    let head = "HTTP/1.1 500 Oh\r\ncontent-type: text/plain\r\ncontent-length: 999999999\r\n\r\n";
    let much = "X".repeat(200 << 10);
    let error = error(&[Step::Raw(head), Step::Raw(&much), Step::Stall]).await;
    assert!(error.to_string().len() < 4096, "{}", error.to_string().len());
}

#[tokio::test]
async fn a_server_without_tls_is_not_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let provider = provider(&url);
    let speak_plainly = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 no TLS here\r\n\r\n").await.unwrap();
        stream
    };
    let (asked, _stream) = tokio::join!(ask(&*provider), speak_plainly);
    let error = asked.unwrap_err();
    assert!(!error.is_retryable(), "{error:?}");
    assert!(error.advice().unwrap().contains("http://"), "{:?}", error.advice());
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let server = Server::start(&[
        &[STREAM_HEAD, HELLO, Step::Stall],
        &[STREAM_HEAD, HELLO, STOP, DONE, STREAM_END],
    ])
    .await;
    let provider = provider(&server.url());
    let mut stream = provider.stream(&request()).await.unwrap();
    assert!(stream.next().await.is_some());
    drop(stream);
    ask(&*provider).await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_after_an_answer_is_replaced() {
    let answer: &[Step<'_>] = &[STREAM_HEAD, HELLO, STOP, DONE, STREAM_END, Step::Close];
    let server = Server::start(&[answer; 5]).await;
    let provider = provider(&server.url());
    for _ in 0..5 {
        ask(&*provider).await.unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (5, 5));
}
