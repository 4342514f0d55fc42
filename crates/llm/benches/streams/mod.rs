//! Streams of realistic shape for the benches, made here so that a run needs no files.

use std::fmt::Write as _;

/// How many text deltas an answer has.
const TEXT_DELTAS: usize = 2_000;

/// How many argument deltas its call has.
const CALL_DELTAS: usize = 500;

/// Words as a model streams them: short, now and then with something to escape.
const WORDS: [&str; 8] =
    ["The", " build", " passes", " \\\"now\\\"", ",", " so\\n", " naïve", " run the tests again"];

fn words(count: usize) -> impl Iterator<Item = &'static str> {
    WORDS.into_iter().cycle().take(count)
}

/// An answer in the Messages protocol, as its servers frame it.
pub(crate) fn anthropic() -> String {
    let mut body = String::new();
    let mut event = |name: &str, data: &str| {
        write!(body, "event: {name}\ndata: {data}\n\n").expect("writing to a string");
    };
    event(
        "message_start",
        r#"{"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","model":"model","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":2095,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}"#,
    );
    let block =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    event("content_block_start", block);
    for word in words(TEXT_DELTAS) {
        let data = format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{word}"}} }}"#
        );
        event("content_block_delta", &data);
    }
    event("content_block_stop", r#"{"type":"content_block_stop","index":0}"#);
    let block = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_01","name":"write_file","input":{}}}"#;
    event("content_block_start", block);
    for word in words(CALL_DELTAS) {
        let data = format!(
            r#"{{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":"{word}"}}}}"#
        );
        event("content_block_delta", &data);
    }
    event("content_block_stop", r#"{"type":"content_block_stop","index":1}"#);
    event(
        "message_delta",
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":2500}}"#,
    );
    event("message_stop", r#"{"type":"message_stop"}"#);
    body
}

/// An answer in Chat Completions, as its servers frame it.
pub(crate) fn openai_chat() -> String {
    let mut body = String::new();
    let mut chunk = |delta: &str, finish: &str| {
        write!(
            body,
            r#"data: {{"id":"chatcmpl-BwDQ4yhVhCqGNqT5","object":"chat.completion.chunk","created":1752854272,"model":"model-2025-04-14","service_tier":"default","system_fingerprint":"fp_51e1070cf2","choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}],"usage":null,"obfuscation":"qB1s9d"}}"#
        )
        .expect("writing to a string");
        body.push_str("\n\n");
    };
    chunk(r#"{"role":"assistant","content":"","refusal":null}"#, "null");
    for word in words(TEXT_DELTAS) {
        chunk(&format!(r#"{{"content":"{word}"}}"#), "null");
    }
    chunk(
        r#"{"tool_calls":[{"index":0,"id":"call_01","type":"function","function":{"name":"write_file","arguments":""}}]}"#,
        "null",
    );
    for word in words(CALL_DELTAS) {
        let call =
            format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":"{word}"}}}}]}}"#);
        chunk(&call, "null");
    }
    chunk("{}", "\"tool_calls\"");
    body.push_str("data: [DONE]\n\n");
    body
}

/// An answer in Responses, as its servers frame it.
pub(crate) fn openai_responses() -> String {
    let mut body = String::new();
    let mut number = 0;
    let mut event = |name: &str, fields: &str| {
        let data = format!(r#"{{"type":"{name}","sequence_number":{number},{fields}}}"#);
        write!(body, "event: {name}\ndata: {data}\n\n").expect("writing to a string");
        number += 1;
    };
    let response = r#""response":{"id":"resp_01","object":"response","created_at":1752854272,"status":"in_progress","error":null,"incomplete_details":null,"instructions":"You are a careful assistant.","model":"model-2026-04-23","output":[],"parallel_tool_calls":true,"store":false,"tools":[],"usage":null}"#;
    event("response.created", response);
    event("response.in_progress", response);
    event(
        "response.output_item.added",
        r#""output_index":0,"item":{"id":"msg_01","type":"message","status":"in_progress","content":[],"phase":"commentary","role":"assistant"}"#,
    );
    let mut text = String::new();
    for word in words(TEXT_DELTAS) {
        let delta = format!(
            r#""item_id":"msg_01","output_index":0,"content_index":0,"delta":"{word}","logprobs":[],"obfuscation":"qB1s9d""#
        );
        event("response.output_text.delta", &delta);
        text.push_str(word);
    }
    let part =
        format!(r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":"{text}"}}"#);
    event(
        "response.output_text.done",
        &format!(r#""item_id":"msg_01","output_index":0,"content_index":0,"text":"{text}""#),
    );
    let message = format!(
        r#"{{"id":"msg_01","type":"message","status":"completed","content":[{part}],"phase":"commentary","role":"assistant"}}"#
    );
    event("response.output_item.done", &format!(r#""output_index":0,"item":{message}"#));
    event(
        "response.output_item.added",
        r#""output_index":1,"item":{"id":"fc_01","type":"function_call","status":"in_progress","arguments":"","call_id":"call_01","name":"write_file"}"#,
    );
    let mut arguments = String::new();
    for word in words(CALL_DELTAS) {
        let delta = format!(
            r#""item_id":"fc_01","output_index":1,"delta":"{word}","obfuscation":"qB1s9d""#
        );
        event("response.function_call_arguments.delta", &delta);
        arguments.push_str(word);
    }
    let call = format!(
        r#"{{"id":"fc_01","type":"function_call","status":"completed","arguments":"{arguments}","call_id":"call_01","name":"write_file"}}"#
    );
    event("response.output_item.done", &format!(r#""output_index":1,"item":{call}"#));
    event(
        "response.completed",
        &format!(
            r#""response":{{"id":"resp_01","object":"response","status":"completed","error":null,"incomplete_details":null,"output":[{message},{call}],"usage":{{"input_tokens":2095,"input_tokens_details":{{"cached_tokens":2048}},"output_tokens":2500,"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":4595}}}}"#
        ),
    );
    body
}

/// An answer of generateContent, as its servers frame it: text in chunks of a sentence, each with the
/// running counts, and the call whole.
pub(crate) fn gemini() -> String {
    /// How many words a chunk brings.
    const WORDS_A_CHUNK: usize = 12;
    let mut body = String::new();
    let mut seen = 0;
    let mut chunk = |part: &str, end: &str| {
        seen += 1;
        write!(
            body,
            r#"data: {{"candidates": [{{"content": {{"parts": [{part}],"role": "model"}}{end},"index": 0}}],"usageMetadata": {{"promptTokenCount": 2095,"candidatesTokenCount": {seen},"totalTokenCount": {total},"promptTokensDetails": [{{"modality": "TEXT","tokenCount": 2095}}],"thoughtsTokenCount": 512}},"modelVersion": "model-3.1-pro-preview","responseId": "1lpeaMTxIpW1nvgPO3vwQY"}}"#,
            total = 2607 + seen
        )
        .expect("writing to a string");
        body.push_str("\r\n\r\n");
    };
    let all: Vec<&str> = words(TEXT_DELTAS * WORDS_A_CHUNK).collect();
    for some in all.chunks(WORDS_A_CHUNK) {
        chunk(&format!(r#"{{"text": "{}"}}"#, some.concat()), "");
    }
    let content: String = words(CALL_DELTAS).collect();
    chunk(
        &format!(
            r#"{{"functionCall": {{"name": "write_file","args": {{"content": "{content}"}}}},"thoughtSignature": "{}"}}"#,
            "c2lnbmF0dXJl".repeat(64)
        ),
        r#","finishReason": "STOP""#,
    );
    body
}
