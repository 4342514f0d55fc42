//! Which failures are asked about again, when, and what is seen of it meanwhile.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

mod mock;

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use llm::error::ErrorAnswer;
use llm::providers::{Connection, connect};
use llm::testing::{Answer, ScriptedProvider, script};
use llm::{
    ApiKey, ChatRequest, Completion, Dialect, EventStream, FinishReason, GaveUp, LlmError, Message,
    Phase, Provider, Retry, RetryPolicy, StreamEvent, Usage, collect,
};
use serde_json::json;
use tokio::time::Instant;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

const PONG: &str = "event: message_start\n\
data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"x\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n\
event: content_block_start\n\
data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
event: content_block_delta\n\
data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"pong\"}}\n\n\
event: content_block_stop\n\
data: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
event: message_delta\n\
data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n\
event: message_stop\n\
data: {\"type\":\"message_stop\"}\n\n";

fn request() -> ChatRequest {
    ChatRequest {
        model: "m".into(),
        messages: vec![Arc::new(Message::user_text("ping"))],
        ..ChatRequest::default()
    }
}

fn refusal(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
    let body = body.as_bytes();
    let answer = ErrorAnswer { status, headers, body, now: Duration::ZERO, key: None };
    Answer::Refuse(answer.into_error())
}

fn in_stream(kind: &str) -> LlmError {
    LlmError::Api { kind: kind.into(), message: "m".into(), status: None }
}

/// A script, the wrapper around it, and the time that has passed.
struct Bench {
    script: Arc<ScriptedProvider>,
    retry: Retry,
    started: Instant,
}

impl Bench {
    /// Without jitter, so that times are exact.
    fn new(answers: Vec<Answer>) -> Self {
        let script = Arc::new(ScriptedProvider::playing(answers));
        let retry =
            Retry::new(script.clone(), RetryPolicy::default()).with_jitter(Arc::new(|| 0.0));
        Self { script, retry, started: Instant::now() }
    }

    async fn open(&self) -> EventStream {
        self.retry.stream(&request()).await.unwrap()
    }

    async fn ask(&self) -> Result<Completion, LlmError> {
        collect(self.open().await).await
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

fn phases(events: &[StreamEvent]) -> Vec<Phase> {
    events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Phase(phase) => Some(phase.clone()),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_two_seconds_is_asked_again_after_two_seconds() {
    let busy = refusal(429, &[("retry-after", "2")], "slow down");
    let bench = Bench::new(vec![busy, script::text("pong").into()]);
    assert_eq!(bench.ask().await.unwrap().finish, FinishReason::EndTurn);
    assert_eq!((bench.elapsed().as_secs(), bench.script.asked()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn without_a_wish_the_delay_doubles_until_the_attempts_are_used_up() {
    let busy = || refusal(529, &[], "busy");
    let bench = Bench::new(vec![busy(), busy(), busy(), busy(), busy(), busy()]);
    let error = bench.ask().await.unwrap_err();
    assert_eq!(error.to_string(), "no answer after 5 attempts: HTTP 529: busy");
    assert_eq!((error.kind(), error.status()), ("server", Some(529)));
    assert!(!error.is_retryable(), "two wrappers do not multiply their attempts");
    assert_eq!(bench.script.asked(), 5);
    assert_eq!(bench.elapsed().as_millis(), 500 + 1_000 + 2_000 + 4_000);
}

#[tokio::test(start_paused = true)]
async fn a_401_is_attempted_exactly_once() {
    let bench = Bench::new(vec![refusal(401, &[], "bad key")]);
    let error = bench.ask().await.unwrap_err();
    assert!(matches!(error, LlmError::Http { status: 401, .. }), "{error:?}");
    assert_eq!((bench.script.asked(), bench.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_wish_beyond_the_deadline_stops_at_once_and_tells_both_times() {
    let busy = refusal(429, &[("retry-after", "86400")], "slow down");
    let bench = Bench::new(vec![busy]);
    let error = bench.ask().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server asks to wait 86400 s, and only 300 s are left for new attempts: \
         HTTP 429: slow down"
    );
    assert_eq!((bench.script.asked(), bench.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn delays_and_attempts_share_one_deadline() {
    let busy = || refusal(429, &[("retry-after", "140")], "slow down");
    let bench = Bench::new(vec![busy(), busy(), busy()]);
    let error = bench.ask().await.unwrap_err();
    let LlmError::GaveUp { why: GaveUp::Deadline { left, .. }, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(left, Duration::from_secs(20));
    assert_eq!((bench.script.asked(), bench.elapsed().as_secs()), (3, 280));
}

#[tokio::test(start_paused = true)]
async fn what_no_repetition_mends_is_told_as_what_it_is() {
    let per_minute = r#"{"error":{"message":"Request too large on tokens per minute (TPM): Limit 6000, Requested 9000"}}"#;
    for (status, body, kind) in [
        (429, r#"{"error":{"message":"m","code":"insufficient_quota"}}"#, "quota"),
        (402, r#"{"error":{"message":"Insufficient Balance"}}"#, "quota"),
        (413, per_minute, "rate_too_small"),
        (429, per_minute, "rate_too_small"),
        (
            400,
            r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#,
            "context_overflow",
        ),
    ] {
        let bench = Bench::new(vec![refusal(status, &[("retry-after", "1")], body)]);
        let error = bench.ask().await.unwrap_err();
        assert_eq!((error.kind(), bench.script.asked()), (kind, 1), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_before_anything_visible_is_retried_and_nothing_of_it_is_kept() {
    let unseen = vec![
        StreamEvent::Usage(Usage { input: Some(9), ..Usage::default() }),
        StreamEvent::Text { block: 0, text: String::new() },
        StreamEvent::ToolStart { index: 0, block: 1, id: "a".into(), name: "ls".into() },
        StreamEvent::ToolDelta { index: 0, fragment: "{\"pa".into() },
    ];
    let bench = Bench::new(vec![
        Answer::Break(unseen, in_stream("overloaded_error")),
        script::tool_call("b", "ls", json!({"path": "."})).into(),
    ]);
    let completion = bench.ask().await.unwrap();
    assert_eq!(completion.usage, Usage::default());
    let message = completion.commit().unwrap();
    let calls: Vec<_> = message.tool_calls().map(|call| call.id).collect();
    assert_eq!(calls, ["b"]);
    assert_eq!(bench.script.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_error_after_something_visible_is_final_and_says_so() {
    for seen in [
        StreamEvent::Text { block: 0, text: "po".into() },
        StreamEvent::Reasoning { block: 0, text: "hm".into() },
    ] {
        let bench = Bench::new(vec![
            Answer::Break(vec![seen], in_stream("overloaded_error")),
            script::text("pong").into(),
        ]);
        let error = bench.ask().await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the answer broke off after a part of it had arrived: overloaded_error: m"
        );
        assert_eq!((bench.script.asked(), bench.elapsed()), (1, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_inside_a_stream_that_blames_the_request_is_final() {
    let bench = Bench::new(vec![Answer::Break(vec![], in_stream("invalid_request_error"))]);
    assert!(matches!(bench.ask().await, Err(LlmError::Api { .. })));
    assert_eq!(bench.script.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unusable_call_is_sampled_anew_once() {
    let bad = || {
        let body =
            r#"{"error":{"message":"m","code":"tool_use_failed","failed_generation":"<f>"}}"#;
        refusal(400, &[], body)
    };
    let bench = Bench::new(vec![bad(), script::text("pong").into()]);
    bench.ask().await.unwrap();
    assert_eq!((bench.script.asked(), bench.elapsed()), (2, Duration::ZERO));

    let bench = Bench::new(vec![bad(), bad(), script::text("pong").into()]);
    assert_eq!(bench.ask().await.unwrap_err().kind(), "bad_tool_call");
    assert_eq!(bench.script.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_stream_tells_where_the_request_stands() {
    let busy = refusal(529, &[("retry-after", "12")], "busy");
    let mut pong = script::text("pong");
    let counts = Usage { input: Some(3), ..Usage::default() };
    pong.insert(0, StreamEvent::Usage(counts));
    let bench = Bench::new(vec![busy, pong.clone().into()]);
    let events: Vec<_> = bench.open().await.map(Result::unwrap).collect().await;
    let streaming = events.iter().position(|event| *event == StreamEvent::Phase(Phase::Streaming));
    assert!(
        matches!(
            events[streaming.unwrap() + 1..],
            [StreamEvent::Usage(_), StreamEvent::Text { .. }, ..]
        ),
        "counts of the input are no answer, and are held back with the rest: {events:?}"
    );
    let delay = Duration::from_secs(12);
    assert_eq!(
        phases(&events),
        [
            Phase::Connecting,
            Phase::Retrying { attempt: 2, of: 5, delay, reason: "overloaded".into() },
            Phase::Connecting,
            Phase::Waiting,
            Phase::Streaming,
        ]
    );
    let content: Vec<_> =
        events.into_iter().filter(|event| !matches!(event, StreamEvent::Phase(_))).collect();
    assert_eq!(content, pong);
}

#[tokio::test(start_paused = true)]
async fn the_delay_is_told_before_it_begins_and_dropping_the_stream_ends_everything() {
    let busy = refusal(529, &[("retry-after", "12")], "busy");
    let bench = Bench::new(vec![busy, script::text("pong").into()]);
    let mut stream = bench.open().await;
    assert_eq!(bench.script.asked(), 0, "nothing happens before the stream is read");
    stream.next().await;
    let told = stream.next().await.unwrap().unwrap();
    assert!(matches!(told, StreamEvent::Phase(Phase::Retrying { .. })), "{told:?}");
    assert_eq!(bench.elapsed(), Duration::ZERO);
    assert!(stream.next().now_or_never().is_none(), "the delay has begun");
    drop(stream);
    tokio::time::advance(Duration::from_secs(60)).await;
    tokio::task::yield_now().await;
    assert_eq!(bench.script.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_too_large_to_be_held_back_is_handed_on_as_it_arrives() {
    let mut events =
        vec![StreamEvent::ToolStart { index: 0, block: 0, id: "a".into(), name: "write".into() }];
    let fragment = "x".repeat(64 << 10);
    events.extend((0..32).map(|_| StreamEvent::ToolDelta { index: 0, fragment: fragment.clone() }));
    let bench = Bench::new(vec![Answer::Stall(events)]);
    let mut stream = bench.open().await;
    let mut bytes = 0;
    while let Some(Some(event)) = stream.next().now_or_never() {
        if let StreamEvent::ToolDelta { fragment, .. } = event.unwrap() {
            bytes += fragment.len();
        }
    }
    assert_eq!(bytes, 32 * fragment.len());
}

#[test]
fn what_is_known_of_a_server_is_known_of_the_provider_around_it() {
    let connection = Connection::new(Dialect::Gemini, "http://127.0.0.1:1");
    let target = Some(connection.target);
    let provider = Retry::new(connect(connection).unwrap(), RetryPolicy::default());
    assert_eq!(provider.target(), target);
}

#[tokio::test]
async fn two_overloads_and_then_an_answer_make_an_answer() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(529).set_body_string("busy"))
        .up_to_n_times(2)
        .mount(&server)
        .await;
    Mock::given(method("POST")).respond_with(mock::stream(PONG)).mount(&server).await;
    let key = ApiKey::new("sk-test-0123456789abcdef0123").unwrap();
    let connection = Connection::new(Dialect::Anthropic, server.uri());
    let provider = connect(Connection { key: Some(key), ..connection }).unwrap();
    let tiny = RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() };
    let completion = mock::ask(&Retry::new(provider, tiny), &request()).await.unwrap();
    assert_eq!(completion.commit().unwrap().text(), "pong");
    let sent = mock::sent(&server).await;
    assert_eq!(sent.len(), 3);
    assert_eq!(sent[0].body, sent[2].body);
}
