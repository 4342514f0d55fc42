//! Event stream decoding beside the crate `eventsource-stream`, on the same bytes in the same chunks.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

mod streams;

use std::convert::Infallible;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use eventsource_stream::Eventsource as _;
use futures::executor::block_on;
use futures::{StreamExt as _, stream};
use llm::sse::{SseDecoder, SseError};

/// Chunk sizes in bytes: one event at a time, a network read, and everything at once.
const CHUNKS: [usize; 3] = [200, 8 << 10, usize::MAX];

fn bench(c: &mut Criterion) {
    let body = [
        streams::anthropic(),
        streams::openai_chat(),
        streams::openai_responses(),
        streams::gemini(),
    ]
    .concat();
    let body = body.as_bytes();
    let mut group = c.benchmark_group("sse");
    group.throughput(Throughput::Bytes(body.len() as u64));
    for size in CHUNKS {
        let size = size.min(body.len());
        group.bench_with_input(BenchmarkId::new("borrowed frames", size), &size, |b, &size| {
            b.iter(|| borrowed(body, size));
        });
        group.bench_with_input(BenchmarkId::new("owned events", size), &size, |b, &size| {
            b.iter(|| owned(body, size));
        });
        group.bench_with_input(BenchmarkId::new("eventsource-stream", size), &size, |b, &size| {
            b.iter(|| other(body, size));
        });
    }
    group.finish();
    assert_eq!(borrowed(body, 200), other(body, 200), "both must find the same events");
}

/// Counts events and bytes of data.
fn borrowed(body: &[u8], size: usize) -> (usize, usize) {
    let mut decoder = SseDecoder::default();
    let mut seen = (0, 0);
    for chunk in body.chunks(size) {
        decoder
            .feed(chunk, |frame| {
                let data = black_box(frame.data);
                seen = (seen.0 + 1, seen.1 + data.len());
                Ok::<(), SseError>(())
            })
            .expect("the stream is within the limits");
    }
    seen
}

fn owned(body: &[u8], size: usize) -> (usize, usize) {
    let mut decoder = SseDecoder::default();
    let mut seen = (0, 0);
    for chunk in body.chunks(size) {
        for event in decoder.push(chunk).expect("the stream is within the limits") {
            let data = black_box(event.data);
            seen = (seen.0 + 1, seen.1 + data.len());
        }
    }
    seen
}

fn other(body: &[u8], size: usize) -> (usize, usize) {
    let chunks = stream::iter(body.chunks(size).map(Ok::<_, Infallible>));
    let mut events = chunks.eventsource();
    let mut seen = (0, 0);
    while let Some(event) = block_on(events.next()) {
        let data = black_box(event.expect("the stream is sound").data);
        seen = (seen.0 + 1, seen.1 + data.len());
    }
    seen
}

criterion_group!(benches, bench);
criterion_main!(benches);
