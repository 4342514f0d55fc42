//! What the log says when a server reads far less from its cache than it was sent before.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

use std::io;
use std::sync::{Arc, Mutex};

use agent::ModelRef;
use llm::testing::script;
use llm::{StreamEvent, Usage};
use tracing::subscriber::DefaultGuard;

use crate::setup::{Bench, Setup, add};

/// The log of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn start(&self) -> DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// What it says about the cache so far.
    fn about_the_cache(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains("cache reads")).map(str::to_owned).collect()
    }
}

fn counted(events: Vec<StreamEvent>, input: u64, cache_read: Option<u64>) -> Vec<StreamEvent> {
    script::with_usage(events, Usage { input: Some(input), cache_read, ..Usage::default() })
}

/// A first turn after which most of what was sent is in the cache, and then one of two steps.
fn answers(later: [(u64, Option<u64>); 2]) -> Vec<Vec<StreamEvent>> {
    let [(first, read_first), (second, read_second)] = later;
    vec![
        counted(add("a"), 10_000, Some(0)),
        counted(script::text("4"), 500, Some(10_000)),
        counted(add("b"), first, read_first),
        counted(script::text("4"), second, read_second),
    ]
}

async fn lines(later: [(u64, Option<u64>); 2], change: impl FnOnce(&mut Bench)) -> Vec<String> {
    let log = Log::default();
    let _guard = log.start();
    let mut bench = Setup::new(answers(later)).build();
    bench.run("2+2").await.unwrap();
    assert_eq!(log.about_the_cache(), Vec::<String>::new());
    change(&mut bench);
    bench.run("and again").await.unwrap();
    log.about_the_cache()
}

const DROPPED: [(u64, Option<u64>); 2] = [(10_600, Some(0)), (300, Some(10_600))];

#[tokio::test]
async fn what_made_the_cache_useless_is_named() {
    let lost = lines(DROPPED, |_| {}).await;
    let [line] = &lost[..] else { panic!("{lost:?}") };
    assert!(line.contains("changed=nothing") && line.contains("did not keep it"), "{line}");
    assert!(line.contains("read=0 before=10500"), "{line}");

    let forgotten = lines(DROPPED, |bench| bench.agent.clear()).await;
    let [line] = &forgotten[..] else { panic!("{forgotten:?}") };
    assert!(line.contains("changed=message 0") && line.contains("does not begin"), "{line}");

    let other = lines(DROPPED, |bench| {
        let model = ModelRef { id: "other".into(), ..bench.agent.model().clone() };
        bench.agent.switch_model(Arc::clone(&bench.provider) as _, model);
    });
    let other = other.await;
    let [line] = &other[..] else { panic!("{other:?}") };
    assert!(line.contains("changed=model"), "{line}");
}

#[tokio::test]
async fn reads_that_hold_and_reads_that_nobody_told_leave_nothing_in_the_log() {
    for later in [
        [(400, Some(10_200)), (300, Some(10_600))],
        // Not less than half of what was sent before.
        [(5_400, Some(5_250)), (300, Some(10_600))],
        [(10_600, None), (10_900, None)],
    ] {
        assert_eq!(lines(later, |_| {}).await, Vec::<String>::new(), "{later:?}");
    }
}
