//! Prints requests with every kind of block, one JSON object a line, as they go to the services
//! themselves: what `tests/sdk` holds against the services' own types.
//!
//! `cargo run -p llm --example requests`

#![expect(clippy::print_stdout, reason = "the lines are its purpose")]

use std::error::Error;
use std::sync::Arc;

use llm::capability::TargetFor;
use llm::providers::to_wire;
use llm::schema::SchemaDialect;
use llm::{
    CacheHint, ChatRequest, ContentBlock, Dialect, Effort, ImageData, Message, ProviderMeta, Role,
    TargetOverrides, ToolChoice, ToolSpec,
};
use serde_json::{Value, json};

const NONE: TargetOverrides = TargetOverrides::NONE;

/// Models of each generation, with the preset of their service.
const MODELS: &[(Dialect, &str, &str)] = &[
    (Dialect::Anthropic, "anthropic", "claude-sonnet-5"),
    (Dialect::Anthropic, "anthropic", "claude-opus-4-5"),
    (Dialect::Anthropic, "anthropic", "claude-3-haiku-20240307"),
    (Dialect::OpenaiChat, "openai-chat", "gpt-5.5"),
    (Dialect::OpenaiChat, "openai-chat", "gpt-4.1"),
    (Dialect::OpenaiResponses, "openai", "gpt-5.5"),
    (Dialect::OpenaiResponses, "openai", "gpt-4.1"),
    (Dialect::Gemini, "gemini", "gemini-3.1-pro-preview"),
    (Dialect::Gemini, "gemini", "gemini-2.5-flash"),
    (Dialect::Gemini, "gemini", "gemini-2.0-flash"),
];

fn main() -> Result<(), Box<dyn Error>> {
    for &(dialect, preset, model) in MODELS {
        let target = TargetFor::new(dialect, Some(preset), "");
        for (variant, told, wishes) in variants() {
            let req = request(dialect, model, wishes);
            let body = to_wire(dialect, &req, target.with(&told).of(model));
            let line = json!({
                "dialect": dialect,
                "name": format!("{model}, {variant}"),
                "body": body,
            });
            println!("{}", serde_json::to_string(&line)?);
        }
    }
    Ok(())
}

/// What a request may ask for, with what differs in the target.
fn variants() -> Vec<(&'static str, TargetOverrides, ChatRequest)> {
    let asks = |effort, tool_choice| ChatRequest {
        max_tokens: 8_000,
        effort,
        tool_choice,
        cache: Some(CacheHint { key: "a-session".to_owned() }),
        ..ChatRequest::default()
    };
    let limited =
        TargetOverrides { tool_schema: Some(SchemaDialect::Limited), images: Some(false), ..NONE };
    vec![
        ("bare", NONE, ChatRequest::default()),
        (
            "warm",
            NONE,
            ChatRequest { temperature: Some(0.5), max_tokens: 9, ..ChatRequest::default() },
        ),
        ("thoughtful", NONE, asks(Some(Effort::High), Some(ToolChoice::Auto))),
        ("made to call", NONE, asks(None, Some(ToolChoice::Required))),
        ("not to think or call", NONE, asks(Some(Effort::None), Some(ToolChoice::None))),
        ("limited", limited, asks(Some(Effort::Max), None)),
    ]
}

fn request(dialect: Dialect, model: &str, wishes: ChatRequest) -> ChatRequest {
    ChatRequest {
        model: model.to_owned(),
        system: Some("Be brief.".to_owned()),
        messages: dialogue(dialect, model).into_iter().map(Arc::new).collect(),
        tools: vec![ToolSpec {
            name: "look".to_owned(),
            description: "Looks at a file.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"path": {"type": "string", "description": "Where it is."}},
                "required": ["path"],
            }),
        }],
        ..wishes
    }
}

fn dialogue(dialect: Dialect, model: &str) -> Vec<Message> {
    let user = |blocks| Message::new(Role::User, blocks);
    let assistant = |blocks| Message::new(Role::Assistant, blocks);
    let own = State::of(dialect, model);
    vec![
        user(vec![ContentBlock::text("What is in it?"), ContentBlock::Image(picture())]),
        assistant(vec![
            ContentBlock::Reasoning {
                text: "I have to look.".to_owned(),
                meta: own.meta(own.reasoning.clone()),
            },
            ContentBlock::Text { text: "I look.".to_owned(), meta: own.meta(own.text.clone()) },
            ContentBlock::Opaque { meta: own.always(own.opaque.clone()) },
            call("call_1", own.meta(own.call.clone())),
            call("call_2", None),
        ]),
        user(vec![
            ContentBlock::tool_result("call_1", "no such file", true),
            ContentBlock::ToolResult {
                call_id: "call_2".to_owned(),
                content: "see".to_owned(),
                is_error: false,
                images: vec![picture()],
            },
            ContentBlock::text("And?"),
        ]),
        assistant(vec![ContentBlock::text("A dot.")]),
        user(vec![ContentBlock::text("Look again.")]),
        assistant(vec![call("call_3", None)]),
        user(vec![ContentBlock::tool_result("call_3", "a dot", false)]),
    ]
}

fn call(id: &str, meta: Option<ProviderMeta>) -> ContentBlock {
    let arguments = json!({"path": "dot.png"});
    ContentBlock::ToolCall { id: id.to_owned(), name: "look".to_owned(), arguments, meta }
}

/// A dot.
fn picture() -> ImageData {
    let data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
    ImageData { media_type: "image/png".to_owned(), data: data.to_owned() }
}

/// What a service gives its blocks to carry along.
struct State {
    dialect: Dialect,
    reasoning: Value,
    text: Value,
    call: Value,
    opaque: Value,
}

impl State {
    fn of(dialect: Dialect, model: &str) -> Self {
        const SEALED: &str = "U0VBTEVE";
        let (reasoning, text, call, opaque) = match dialect {
            Dialect::Anthropic => (
                json!({"type": "thinking", "signature": SEALED}),
                Value::Null,
                Value::Null,
                json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
            ),
            Dialect::OpenaiChat => {
                (json!({"field": "reasoning_content"}), Value::Null, Value::Null, Value::Null)
            }
            Dialect::OpenaiResponses => (
                json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SEALED}),
                json!({"id": "msg_1", "phase": "commentary"}),
                json!({"id": "fc_1"}),
                json!({"type": "web_search_call", "id": "ws_1", "status": "completed",
                       "action": {"type": "search", "query": "dots"}}),
            ),
            Dialect::Gemini => (
                json!({"thoughtSignature": SEALED, "model": model}),
                json!({"thoughtSignature": SEALED, "model": model}),
                json!({"thoughtSignature": SEALED, "id": "g1", "model": model}),
                json!({"executableCode": {"code": "1", "language": "PYTHON"}}),
            ),
        };
        Self { dialect, reasoning, text, call, opaque }
    }

    fn meta(&self, data: Value) -> Option<ProviderMeta> {
        (!data.is_null()).then(|| self.always(data))
    }

    fn always(&self, data: Value) -> ProviderMeta {
        ProviderMeta { provider: self.dialect.name().to_owned(), data }
    }
}
