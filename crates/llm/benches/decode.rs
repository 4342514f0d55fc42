//! The whole path from bytes to stream events, beside reading the same payloads into `Value`s.
//!
//! The comparison favours the other side: it gets its payloads without any framing and makes no
//! events of them.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

mod streams;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use llm::providers::anthropic::decode::StreamState;
use llm::providers::gemini::decode::GeminiStreamState;
use llm::providers::openai_chat::decode::ChatStreamState;
use llm::providers::openai_responses::decode::ResponsesStreamState;
use llm::sse::{SseDecoder, SseFrame};
use llm::{LlmError, StreamEvent};
use serde_json::Value;

/// What one read from the network gives, in bytes.
const CHUNK: usize = 8 << 10;

fn bench(c: &mut Criterion) {
    let body = streams::anthropic();
    compare(c, "anthropic", body.as_bytes(), |body| {
        let mut state = StreamState::new(Box::new(|| unreachable!("the stream names its calls")));
        events(body, |frame, out| state.on_sse(frame, out))
    });
    let body = streams::openai_chat();
    compare(c, "openai-chat", body.as_bytes(), |body| {
        let mut state =
            ChatStreamState::new(Box::new(|| unreachable!("the stream names its calls")));
        events(body, |frame, out| state.on_sse(frame, out))
    });
    let body = streams::openai_responses();
    compare(c, "openai-responses", body.as_bytes(), |body| {
        let mut state =
            ResponsesStreamState::new(Box::new(|| unreachable!("the stream names its calls")));
        events(body, |frame, out| state.on_sse(frame, out))
    });
    let body = streams::gemini();
    compare(c, "gemini", body.as_bytes(), |body| {
        let mut state = GeminiStreamState::new(Box::new(|| "call".to_owned()));
        events(body, |frame, out| state.on_sse(frame, out))
    });
}

fn compare(c: &mut Criterion, name: &str, body: &[u8], ours: impl Fn(&[u8]) -> usize) {
    let payloads: Vec<String> = SseDecoder::default()
        .push(body)
        .expect("the stream is within the limits")
        .into_iter()
        .map(|event| event.data)
        .filter(|data| data.starts_with('{'))
        .collect();
    assert!(ours(body) > payloads.len() - 10, "nearly every payload is an event");
    let mut group = c.benchmark_group(format!("decode/{name}"));
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("bytes to events", |b| b.iter(|| ours(body)));
    group.bench_function("payloads to values", |b| {
        b.iter(|| {
            for payload in &payloads {
                let value: Value = serde_json::from_slice(payload.as_bytes()).expect("sound JSON");
                black_box(value);
            }
        });
    });
    group.finish();
}

/// Feeds the body in chunks, taking the events after each as the network code does.
fn events(
    body: &[u8],
    mut on_frame: impl FnMut(SseFrame<'_>, &mut Vec<StreamEvent>) -> Result<(), LlmError>,
) -> usize {
    let mut sse = SseDecoder::default();
    let mut out = Vec::new();
    let mut seen = 0;
    for chunk in body.chunks(CHUNK) {
        sse.feed(chunk, |frame| on_frame(frame, &mut out)).expect("the stream is sound");
        for event in out.drain(..) {
            black_box(event);
            seen += 1;
        }
    }
    seen
}

criterion_group!(benches, bench);
criterion_main!(benches);
