//! What a step costs, and that it does not grow with the steps before it.
//!
//! A scripted provider answers at once, so what is measured is the loop: commit, dispatch of a
//! calculator call, validation, events. One iteration is a whole turn; divide by its steps.

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::sync::Arc;

use agent::channel::EventReceiver;
use agent::tools::calculator::Calculator;
use agent::{Agent, AgentConfig, AgentParts};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use llm::ContentBlock;
use llm::testing::{Recording, ScriptedProvider, script};
use serde_json::json;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use self::support::{CONFIG, parts, registry};

fn agent(steps: u32) -> (Agent, EventReceiver) {
    let call = |n: u32| {
        script::tool_call(&format!("call_{n}"), "calculator", json!({"a": n, "b": 1, "op": "add"}))
    };
    let mut answers: Vec<_> = (1..steps).map(call).collect();
    answers.push(script::text("done"));
    let provider = ScriptedProvider::new(answers).recording(Recording::Off);
    let (parts, receiver) = parts(Arc::new(provider));
    let agent = Agent::new(AgentParts {
        tools: registry([Arc::new(Calculator) as _]),
        config: AgentConfig { max_steps: steps, ..CONFIG },
        ..parts
    });
    (agent, receiver)
}

async fn turn((mut agent, mut receiver): (Agent, EventReceiver)) {
    let watcher = tokio::spawn(async move {
        while let Some(event) = receiver.recv().await {
            black_box(event);
        }
    });
    let outcome = agent.run_turn(vec![ContentBlock::text("go")], CancellationToken::new()).await;
    black_box(outcome.expect("the script is complete"));
    drop(agent);
    watcher.await.expect("the watcher only reads");
}

fn steps(c: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut group = c.benchmark_group("turn");
    group.sample_size(10);
    for steps in [1, 100, 1_000, 3_000] {
        group.throughput(Throughput::Elements(u64::from(steps)));
        group.bench_with_input(BenchmarkId::from_parameter(steps), &steps, |b, &steps| {
            b.to_async(&runtime).iter_batched(|| agent(steps), turn, BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
