//! What each column of a target makes of a request, in every dialect that has a use for it.

use std::sync::Arc;

use llm::capability::{
    CacheHintKind, CallIdRule, Efforts, MaxTokensField, ReasoningReplay, ResultImages, Signatures,
    SystemRole, ThinkingStyle, target,
};
use llm::providers::{Joined, body, to_wire};
use llm::schema::SchemaDialect;
use llm::{
    CacheHint, ChatRequest, ContentBlock, Dialect, Effort, ImageData, Message, ProviderMeta, Role,
    TargetOverrides, ToolChoice, ToolSpec,
};
use serde_json::{Value, json};

use Dialect::{Anthropic, Gemini, OpenaiChat, OpenaiResponses};

const NONE: TargetOverrides = TargetOverrides::NONE;

fn picture() -> ImageData {
    ImageData { media_type: "image/png".into(), data: "AAAA".into() }
}

/// A step in which the dialect's own reasoning led to a call, whose result has a picture.
fn messages(dialect: Dialect) -> Vec<Arc<Message>> {
    let data = match dialect {
        Anthropic => json!({"type": "thinking", "signature": "c2ln"}),
        OpenaiChat => json!({"field": "reasoning", "reasoning_details": [{"index": 0}]}),
        OpenaiResponses => json!({"type": "reasoning", "id": "rs_1", "summary": []}),
        Gemini => json!({"thoughtSignature": "c2ln"}),
    };
    let meta = Some(ProviderMeta { provider: dialect.name().into(), data });
    let call = |id: &str| ContentBlock::ToolCall {
        id: id.into(),
        name: "look".into(),
        arguments: json!({}),
        meta: None,
    };
    let result = ContentBlock::ToolResult {
        call_id: "call:1".into(),
        content: "see".into(),
        is_error: false,
        images: vec![picture()],
    };
    vec![
        Arc::new(Message::new(
            Role::User,
            vec![ContentBlock::text("look"), ContentBlock::Image(picture())],
        )),
        Arc::new(Message::new(
            Role::Assistant,
            vec![
                ContentBlock::Reasoning { text: "hm".into(), meta },
                call("call:1"),
                ContentBlock::text("I look."),
                call("call_2"),
            ],
        )),
        Arc::new(Message::new(
            Role::User,
            vec![result, ContentBlock::tool_result("call_2", "no", true)],
        )),
        Arc::new(Message::new(Role::Assistant, vec![call("call_3")])),
        Arc::new(Message::new(Role::User, vec![ContentBlock::tool_result("call_3", "no", true)])),
    ]
}

fn request(dialect: Dialect) -> ChatRequest {
    ChatRequest {
        model: "m".into(),
        system: Some("Be brief.".into()),
        messages: messages(dialect),
        tools: vec![ToolSpec {
            name: "look".into(),
            description: "Looks.".into(),
            input_schema: json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
        }],
        max_tokens: 10_000,
        temperature: Some(0.5),
        tool_choice: Some(ToolChoice::Required),
        effort: Some(Effort::High),
        cache: Some(CacheHint { key: "session-1".into() }),
        ..ChatRequest::default()
    }
}

/// The request to a server of which only `told` is known, and that its models see pictures.
fn sent(dialect: Dialect, told: TargetOverrides, req: &ChatRequest) -> Value {
    let sees = TargetOverrides { images: Some(true), ..NONE };
    let row = target(dialect, None, "", &req.model).with(&sees).with(&told);
    let value = to_wire(dialect, req, row);
    let bytes: Value = serde_json::from_slice(&body(dialect, req, row, &Joined::default()))
        .expect("a body is JSON");
    assert_eq!(bytes, value, "{dialect:?} {told:?}");
    value
}

/// The fields at the top that say how deep to think.
fn thought(dialect: Dialect, told: TargetOverrides, req: &ChatRequest) -> Value {
    let sent = sent(dialect, told, req);
    let names = [
        "reasoning_effort",
        "reasoning",
        "thinking",
        "enable_thinking",
        "thinking_budget",
        "output_config",
    ];
    let fields =
        names.iter().filter_map(|name| Some(((*name).to_owned(), sent.get(name)?.clone())));
    match dialect {
        Gemini => sent["generationConfig"]["thinkingConfig"].clone(),
        Anthropic | OpenaiChat | OpenaiResponses => Value::Object(fields.collect()),
    }
}

fn asks(style: ThinkingStyle, efforts: &[Effort]) -> TargetOverrides {
    TargetOverrides { thinking: Some(style), efforts: Some(Efforts::of(efforts)), ..NONE }
}

#[test]
fn every_column_changes_a_request_in_the_dialects_that_have_a_use_for_it() {
    #[track_caller]
    fn check(told: TargetOverrides, dialects: &[Dialect]) {
        let changed: Vec<Dialect> = Dialect::ALL
            .into_iter()
            .filter(|dialect| {
                let req = request(*dialect);
                sent(*dialect, told, &req) != sent(*dialect, NONE, &req)
            })
            .collect();
        assert_eq!(changed, dialects, "{told:?}");
    }
    let all = &Dialect::ALL;
    check(
        TargetOverrides { max_tokens_field: Some(MaxTokensField::MaxCompletionTokens), ..NONE },
        &[OpenaiChat],
    );
    check(TargetOverrides { reasoning_replay: Some(ReasoningReplay::None), ..NONE }, all);
    check(
        TargetOverrides {
            reasoning_replay: Some(ReasoningReplay::ReasoningContent),
            empty_reasoning: Some(true),
            ..NONE
        },
        &[OpenaiChat],
    );
    check(TargetOverrides { tool_choice_required: Some(false), ..NONE }, all);
    check(TargetOverrides { strict_field: Some(true), ..NONE }, &[OpenaiChat]);
    check(TargetOverrides { strict_field: Some(false), ..NONE }, &[OpenaiResponses]);
    check(TargetOverrides { images: Some(false), ..NONE }, all);
    check(TargetOverrides { max_image_bytes: Some(3), ..NONE }, all);
    check(
        TargetOverrides { result_images: Some(ResultImages::Beside), ..NONE },
        &[Anthropic, OpenaiResponses, Gemini],
    );
    check(TargetOverrides { result_images: Some(ResultImages::Inside), ..NONE }, &[OpenaiChat]);
    check(TargetOverrides { usage_flag: Some(false), ..NONE }, &[OpenaiChat]);
    check(TargetOverrides { system_role: Some(SystemRole::Developer), ..NONE }, &[OpenaiChat]);
    check(
        TargetOverrides { call_ids: Some(CallIdRule::NineAlphanumeric), ..NONE },
        &[Anthropic, OpenaiChat, OpenaiResponses],
    );
    check(TargetOverrides { temperature: Some(false), ..NONE }, all);
    check(
        TargetOverrides { cache_hint: Some(CacheHintKind::PromptCacheKey), ..NONE },
        &[Anthropic, OpenaiChat, OpenaiResponses],
    );
    check(TargetOverrides { cache_hint: Some(CacheHintKind::CacheControl), ..NONE }, &[OpenaiChat]);
    check(TargetOverrides { cache_hint: Some(CacheHintKind::None), ..NONE }, &[Anthropic]);
    check(TargetOverrides { tool_schema: Some(SchemaDialect::Limited), ..NONE }, all);
    check(TargetOverrides { signatures: Some(Signatures::Unknown), ..NONE }, &[Gemini]);
    check(TargetOverrides { obfuscation_flag: Some(true), ..NONE }, &[OpenaiResponses]);
    check(TargetOverrides { calls_last: Some(true), ..NONE }, &[OpenaiResponses]);
    let all_efforts = [Effort::Low, Effort::High];
    check(asks(ThinkingStyle::Effort, &[Effort::Low]), &[OpenaiChat, OpenaiResponses, Gemini]);
    check(asks(ThinkingStyle::Adaptive, &all_efforts), &[Anthropic, OpenaiResponses, Gemini]);
    check(asks(ThinkingStyle::Toggle, &all_efforts), &[OpenaiChat, OpenaiResponses, Gemini]);
}

#[test]
fn a_depth_of_thought_is_asked_for_in_the_words_of_the_server() {
    use Effort::{High, Low, Max};
    let depth = |dialect, told| thought(dialect, told, &request(dialect));
    let chat = |style, efforts: &[Effort]| depth(OpenaiChat, asks(style, efforts));
    assert_eq!(chat(ThinkingStyle::None, &[]), json!({}));
    assert_eq!(chat(ThinkingStyle::Effort, &[Low]), json!({"reasoning_effort": "low"}));
    assert_eq!(chat(ThinkingStyle::Reasoning, &[High]), json!({"reasoning": {"effort": "high"}}));
    assert_eq!(chat(ThinkingStyle::Toggle, &[]), json!({"thinking": {"type": "enabled"}}));
    assert_eq!(
        chat(ThinkingStyle::Toggle, &[Low, High]),
        json!({"reasoning_effort": "high", "thinking": {"type": "enabled"}})
    );
    assert_eq!(chat(ThinkingStyle::EnableThinking, &[]), json!({"enable_thinking": true}));
    assert_eq!(
        depth(OpenaiResponses, asks(ThinkingStyle::Effort, &[Max])),
        json!({"reasoning": {"effort": "max"}})
    );
    assert_eq!(
        depth(Anthropic, asks(ThinkingStyle::Adaptive, &[High])),
        json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}})
    );
    assert_eq!(
        depth(Gemini, asks(ThinkingStyle::Level, &[Low])),
        json!({"thinkingLevel": "LOW", "includeThoughts": true})
    );
    assert_eq!(
        depth(Gemini, asks(ThinkingStyle::Budget, &[Low, High])),
        json!({"thinkingBudget": 16_384, "includeThoughts": true})
    );
}

#[test]
fn no_thought_at_all_is_asked_for_where_the_server_has_a_word_for_it() {
    let off = |dialect, told| {
        let req = ChatRequest { effort: Some(Effort::None), ..request(dialect) };
        thought(dialect, told, &req)
    };
    let chat = |style| off(OpenaiChat, asks(style, &[Effort::None, Effort::High]));
    assert_eq!(chat(ThinkingStyle::Effort), json!({"reasoning_effort": "none"}));
    assert_eq!(chat(ThinkingStyle::Toggle), json!({"thinking": {"type": "disabled"}}));
    assert_eq!(chat(ThinkingStyle::EnableThinking), json!({"enable_thinking": false}));
    assert_eq!(chat(ThinkingStyle::Reasoning), json!({"reasoning": {"effort": "none"}}));
    for style in [ThinkingStyle::Adaptive, ThinkingStyle::Budget] {
        let told = asks(style, &[Effort::High]);
        assert_eq!(off(Anthropic, told), json!({"thinking": {"type": "disabled"}}));
    }
    let can = asks(ThinkingStyle::Budget, &[Effort::None, Effort::High]);
    assert_eq!(off(Gemini, can)["thinkingBudget"], 0);
    // One that cannot stop is asked for the least.
    let cannot = asks(ThinkingStyle::Budget, &[Effort::Minimal, Effort::High]);
    assert_eq!(off(Gemini, cannot)["thinkingBudget"], 1_024);
    let least = asks(ThinkingStyle::Effort, &[Effort::Low, Effort::High]);
    assert_eq!(off(OpenaiResponses, least), json!({"reasoning": {"effort": "low"}}));
}

#[test]
fn a_budget_stays_below_the_limit_of_the_answer_and_above_the_least_one() {
    #[track_caller]
    fn check(max_tokens: u32, effort: Option<Effort>, budget: Option<u32>, want: Option<u32>) {
        let req = ChatRequest { max_tokens, effort, thinking_budget: budget, ..request(Anthropic) };
        let sent = sent(Anthropic, asks(ThinkingStyle::Budget, &[]), &req);
        let got = sent["thinking"].get("budget_tokens").and_then(Value::as_u64);
        assert_eq!(got, want.map(u64::from), "{max_tokens} {effort:?} {budget:?}");
        // A temperature and thinking exclude each other there.
        assert_eq!(sent.get("temperature").is_none(), want.is_some());
    }
    check(32_000, Some(Effort::Medium), None, Some(8_192));
    check(10_000, Some(Effort::High), None, Some(5_000));
    check(10_000, None, Some(9_000), Some(9_000));
    check(10_000, None, Some(20_000), Some(9_999));
    check(10_000, None, Some(10), Some(1_024));
    check(1_500, Some(Effort::High), None, None);
    check(1_024, None, Some(5_000), None);
    check(10_000, None, None, None);
}

#[test]
fn a_budget_goes_to_routers_as_tokens_and_to_others_as_a_word() {
    let req =
        |dialect| ChatRequest { effort: None, thinking_budget: Some(9_000), ..request(dialect) };
    let chat =
        |style| thought(OpenaiChat, asks(style, &[Effort::Low, Effort::High]), &req(OpenaiChat));
    assert_eq!(chat(ThinkingStyle::Reasoning), json!({"reasoning": {"max_tokens": 9_000}}));
    assert_eq!(
        chat(ThinkingStyle::EnableThinking),
        json!({"enable_thinking": true, "thinking_budget": 9_000})
    );
    assert_eq!(chat(ThinkingStyle::Effort), json!({"reasoning_effort": "high"}));
    let adaptive = asks(ThinkingStyle::Adaptive, &[Effort::Low, Effort::High]);
    assert_eq!(thought(Anthropic, adaptive, &req(Anthropic))["output_config"]["effort"], "high");
}

#[test]
fn calls_can_be_demanded_or_forbidden_where_the_target_lets_them() {
    let choice = |dialect, choice, told| {
        let req = ChatRequest { tool_choice: Some(choice), ..request(dialect) };
        let sent = sent(dialect, told, &req);
        match dialect {
            Gemini => sent["toolConfig"]["functionCallingConfig"]["mode"].clone(),
            Anthropic => sent["tool_choice"]["type"].clone(),
            OpenaiChat | OpenaiResponses => sent["tool_choice"].clone(),
        }
    };
    let words = |dialect| {
        [ToolChoice::Auto, ToolChoice::Required, ToolChoice::None]
            .map(|wanted| choice(dialect, wanted, NONE))
    };
    assert_eq!(words(Anthropic), ["auto", "any", "none"]);
    assert_eq!(words(OpenaiChat), ["auto", "required", "none"]);
    assert_eq!(words(OpenaiResponses), ["auto", "required", "none"]);
    assert_eq!(words(Gemini), ["AUTO", "ANY", "NONE"]);
    let free = TargetOverrides { tool_choice_required: Some(false), ..NONE };
    assert_eq!(choice(OpenaiChat, ToolChoice::Required, free), "auto");
    // A model that thinks within a budget cannot be made to call.
    let budget = asks(ThinkingStyle::Budget, &[]);
    assert_eq!(choice(Anthropic, ToolChoice::Required, budget), "auto");
    assert_eq!(choice(Anthropic, ToolChoice::Required, asks(ThinkingStyle::Adaptive, &[])), "any");
    // Without tools there is nothing to choose.
    for dialect in Dialect::ALL {
        let req = ChatRequest { tools: Vec::new(), ..request(dialect) };
        let sent = sent(dialect, NONE, &req);
        assert_eq!((sent.get("tool_choice"), sent.get("toolConfig")), (None, None), "{dialect:?}");
    }
}

#[test]
fn a_cached_beginning_is_announced_in_the_way_of_the_server() {
    let hint = |kind| TargetOverrides { cache_hint: Some(kind), ..NONE };
    for dialect in [OpenaiChat, OpenaiResponses] {
        let keyed = sent(dialect, hint(CacheHintKind::PromptCacheKey), &request(dialect));
        assert_eq!(keyed["prompt_cache_key"], "session-1");
        let quiet = ChatRequest { cache: None, ..request(dialect) };
        let quiet = sent(dialect, hint(CacheHintKind::PromptCacheKey), &quiet);
        assert_eq!(quiet.get("prompt_cache_key"), None);
    }
    let marked = sent(OpenaiChat, hint(CacheHintKind::CacheControl), &request(OpenaiChat));
    assert_eq!(marked["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(marked["messages"][0]["content"], "Be brief.");
}

/// Where the marks stand, as pointers.
fn marks(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                marks(item, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            if fields.contains_key("cache_control") {
                found.push(at.to_owned());
            }
            for (name, field) in fields {
                marks(field, &format!("{at}/{name}"), found);
            }
        }
        _ => {}
    }
}

fn marks_of(req: &ChatRequest) -> Vec<String> {
    let mut found = Vec::new();
    marks(&sent(Anthropic, NONE, req), "", &mut found);
    found
}

#[test]
fn messages_carry_exactly_two_marks_at_the_end_of_the_system_text_and_of_the_dialogue() {
    let mut req = request(Anthropic);
    assert_eq!(marks_of(&req), ["/system/0", "/messages/4/content/0"]);
    req.messages.pop();
    req.messages.pop();
    assert_eq!(marks_of(&req), ["/system/0", "/messages/2/content/1"]);
    let quiet = ChatRequest { cache: None, ..req.clone() };
    assert!(marks_of(&quiet).is_empty());
    let bare = ChatRequest { system: None, ..req.clone() };
    assert_eq!(marks_of(&bare), ["/messages/2/content/1"]);
    // What only the server understands goes back as it came.
    let data = json!({"type": "server_tool_use"});
    let opaque = ContentBlock::Opaque { meta: ProviderMeta { provider: "anthropic".into(), data } };
    req.messages.push(Arc::new(Message::new(Role::Assistant, vec![opaque])));
    assert_eq!(marks_of(&req), ["/system/0"]);
}

#[test]
fn a_mark_that_moves_on_leaves_the_messages_before_it_as_they_were() {
    let row = target(Anthropic, None, "", "m");
    let mut req = request(Anthropic);
    let (last, before) = req.messages.split_last().expect("messages");
    let (last, before) = (Arc::clone(last), before.to_vec());
    req.messages = before;
    let joined = Joined::default();
    let first = body(Anthropic, &req, row, &joined);
    req.messages.push(last);
    let second = body(Anthropic, &req, row, &joined);
    // All but the mark of the first request and its closing brackets begins the second.
    let mark = br#","cache_control":{"type":"ephemeral"}}]}]}"#;
    let prefix = first.strip_suffix(mark).expect("the mark ends the first request");
    assert!(second.starts_with(prefix));
    assert!(second[prefix.len()..].starts_with(b"}]},{"), "{}", String::from_utf8_lossy(&second));
}

#[test]
fn pictures_of_results_stand_inside_or_beside_in_every_dialect() {
    for dialect in Dialect::ALL {
        for place in [ResultImages::Inside, ResultImages::Beside] {
            let told = TargetOverrides { result_images: Some(place), ..NONE };
            let sent = sent(dialect, told, &request(dialect)).to_string();
            let has_line = sent.contains("Images from the result of ");
            assert_eq!(has_line, place == ResultImages::Beside, "{dialect:?} {place:?}");
            assert_eq!(sent.matches("AAAA").count(), 2, "{dialect:?} {place:?}");
        }
        let blind = TargetOverrides { images: Some(false), ..NONE };
        let sent = sent(dialect, blind, &request(dialect)).to_string();
        assert!(!sent.contains("AAAA"), "{sent}");
        assert_eq!(sent.matches("this model sees no pictures").count(), 2, "{dialect:?}");
    }
}
