//! For arbitrary transcripts: the body that is sent is the request that was meant, and the checker
//! accepts exactly what keeps the rules.

use std::sync::Arc;

use llm::capability::{
    CacheHintKind, CallIdRule, Effort, Efforts, MaxTokensField, ReasoningReplay, ResultImages,
    Signatures, SystemRole, TargetOverrides, ThinkingStyle, target,
};
use llm::handoff::{Reader, prepare};
use llm::providers::{Joined, body, to_wire};
use llm::schema::SchemaDialect;
use llm::{
    CacheHint, ChatRequest, ContentBlock, Dialect, ImageData, Message, ProviderMeta, Role, Tail,
    Target, ToolChoice, ToolSpec, TranscriptChecker, validate_transcript,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Text with everything that JSON has to escape.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n".to_owned()),
        "[ -~\\x00-\\x1f\u{e9}\u{1f980}\u{2028}\u{ffff}]{0,12}"
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec(("[a-z]{0,3}", inner), 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn meta() -> impl Strategy<Value = ProviderMeta> {
    let data = prop_oneof![
        Just(json!({"type": "thinking", "signature": "c2ln"})),
        Just(json!({"type": "redacted_thinking", "data": "ZW5j"})),
        Just(json!({"citations": [{"type": "page_location"}]})),
        Just(json!({"field": "reasoning_content"})),
        Just(json!({"field": "reasoning", "reasoning_details": [{"index": 0}]})),
        "[a-c]".prop_map(|id| json!({"type": "reasoning", "id": id, "summary": []})),
        "(msg|fc)_[a-c]".prop_map(|id| json!({"id": id, "phase": "commentary"})),
        "msg_[a-c]".prop_map(|id| json!({"id": id, "refusal": true})),
        ("[ab]", "[mn]").prop_map(|(sign, model)| {
            json!({"thoughtSignature": sign, "id": "g", "model": model})
        }),
        value(),
    ];
    let provider = prop_oneof![
        Just("anthropic"),
        Just("openai-chat"),
        Just("openai-responses"),
        Just("gemini")
    ];
    (provider, data).prop_map(|(provider, data)| ProviderMeta { provider: provider.into(), data })
}

fn image() -> impl Strategy<Value = ImageData> {
    "[A-Za-z0-9+/]{0,8}".prop_map(|data| ImageData { media_type: "image/png".into(), data })
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9_]{1,9}", "[ -~]{1,60}"]
}

fn block() -> impl Strategy<Value = ContentBlock> {
    prop_oneof![
        (text(), option::of(meta())).prop_map(|(text, meta)| ContentBlock::Text { text, meta }),
        image().prop_map(ContentBlock::Image),
        (text(), option::of(meta()))
            .prop_map(|(text, meta)| ContentBlock::Reasoning { text, meta }),
        (id(), "[a-z_]{1,8}", value(), option::of(meta())).prop_map(
            |(id, name, arguments, meta)| ContentBlock::ToolCall { id, name, arguments, meta }
        ),
        (id(), text(), any::<bool>(), vec(image(), 0..3)).prop_map(
            |(call_id, content, is_error, images)| ContentBlock::ToolResult {
                call_id,
                content,
                is_error,
                images
            }
        ),
        meta().prop_map(|meta| ContentBlock::Opaque { meta }),
    ]
}

fn message() -> impl Strategy<Value = Arc<Message>> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant)];
    (role, vec(block(), 0..5)).prop_map(|(role, content)| Arc::new(Message::new(role, content)))
}

/// A dialogue that keeps the rules up to one place, where it may break one.
fn dialogue() -> impl Strategy<Value = Vec<Arc<Message>>> {
    let step = (vec(id(), 0..3), 0..12_usize);
    vec(step, 0..4).prop_map(|steps| {
        let mut messages = vec![Arc::new(Message::user_text("go"))];
        for (number, (ids, fault)) in steps.into_iter().enumerate() {
            let ids: Vec<String> = ids.iter().map(|id| format!("{id}.{}", number / 2)).collect();
            let calls = ids.iter().map(|id| ContentBlock::ToolCall {
                id: id.clone(),
                name: "t".into(),
                arguments: json!({}),
                meta: None,
            });
            let results = ids.iter().map(|id| ContentBlock::tool_result(id, "ok", false));
            let mut results: Vec<ContentBlock> = results.collect();
            match fault {
                0 => drop(results.pop()),
                1 => results.extend(results.first().cloned()),
                2 => results.push(ContentBlock::tool_result("stray", "", false)),
                _ => {}
            }
            messages.push(Arc::new(Message::new(Role::Assistant, calls.collect())));
            messages.push(Arc::new(Message::new(Role::User, results)));
        }
        messages
    })
}

fn effort() -> impl Strategy<Value = Effort> {
    use Effort::{High, Low, Max, Medium, Minimal, None, Xhigh};
    prop::sample::select(vec![None, Minimal, Low, Medium, High, Xhigh, Max])
}

prop_compose! {
    /// What a request says about itself besides its content.
    fn wishes()(
        max_tokens in 0..9_000_u32,
        temperature in option::of(0.0..2.0_f32),
        tool_choice in option::of(prop::sample::select(
            vec![ToolChoice::Auto, ToolChoice::Required, ToolChoice::None],
        )),
        effort in option::of(effort()),
        thinking_budget in option::of(0..40_000_u32),
        cache in option::of(text().prop_map(|key| CacheHint { key })),
    ) -> ChatRequest {
        ChatRequest {
            max_tokens, temperature, tool_choice, effort, thinking_budget, cache,
            ..ChatRequest::default()
        }
    }
}

prop_compose! {
    fn request()(
        model in prop_oneof![Just("m".to_owned()), text()],
        system in option::of(text()),
        messages in vec(message(), 0..6),
        tools in vec((text(), value()), 0..3),
        wishes in wishes(),
    ) -> ChatRequest {
        let spec = |(description, input_schema)| {
            ToolSpec { name: "t".into(), description, input_schema }
        };
        let tools = tools.into_iter().map(spec).collect();
        ChatRequest { model, system, messages, tools, ..wishes }
    }
}

prop_compose! {
    /// A row with any value in the columns that change a message.
    fn of_messages()(
        reasoning_replay in prop::sample::select(vec![
            ReasoningReplay::None, ReasoningReplay::AsReceived, ReasoningReplay::ReasoningContent,
            ReasoningReplay::Reasoning, ReasoningReplay::ReasoningDetails,
        ]),
        empty_reasoning in any::<bool>(),
        images in any::<bool>(),
        max_image_bytes in prop::sample::select(vec![4, u32::MAX]),
        result_images in prop::sample::select(vec![ResultImages::Inside, ResultImages::Beside]),
        call_ids in prop::sample::select(vec![
            CallIdRule::UpTo40, CallIdRule::UpTo64, CallIdRule::WordCharacters,
            CallIdRule::NineAlphanumeric,
        ]),
        signatures in prop::sample::select(
            vec![Signatures::Demanded, Signatures::Expected, Signatures::Unknown],
        ),
        calls_last in any::<bool>(),
    ) -> TargetOverrides {
        TargetOverrides {
            reasoning_replay: Some(reasoning_replay),
            empty_reasoning: Some(empty_reasoning),
            images: Some(images),
            max_image_bytes: Some(max_image_bytes),
            result_images: Some(result_images),
            call_ids: Some(call_ids),
            signatures: Some(signatures),
            calls_last: Some(calls_last),
            ..TargetOverrides::NONE
        }
    }
}

prop_compose! {
    /// A row with any value in the columns that change the head of a request.
    fn of_heads()(
        is_original in any::<bool>(),
        flags in any::<[bool; 4]>(),
        developer in any::<bool>(),
        thinking in prop::sample::select(vec![
            ThinkingStyle::None, ThinkingStyle::Effort, ThinkingStyle::Reasoning,
            ThinkingStyle::Toggle, ThinkingStyle::EnableThinking, ThinkingStyle::Adaptive,
            ThinkingStyle::Budget, ThinkingStyle::Level,
        ]),
        efforts in vec(effort(), 0..4),
        temperature in any::<bool>(),
        cache_hint in prop::sample::select(vec![
            CacheHintKind::None, CacheHintKind::PromptCacheKey, CacheHintKind::CacheControl,
        ]),
        tool_schema in prop::sample::select(
            vec![SchemaDialect::Full, SchemaDialect::PlainRoot, SchemaDialect::Limited],
        ),
    ) -> TargetOverrides {
        let [tool_choice_required, strict_field, usage_flag, obfuscation_flag] = flags;
        let field = if is_original { MaxTokensField::MaxCompletionTokens } else { MaxTokensField::MaxTokens };
        let role = if developer { SystemRole::Developer } else { SystemRole::System };
        TargetOverrides {
            max_tokens_field: Some(field),
            system_role: Some(role),
            tool_choice_required: Some(tool_choice_required),
            strict_field: Some(strict_field),
            usage_flag: Some(usage_flag),
            obfuscation_flag: Some(obfuscation_flag),
            thinking: Some(thinking),
            efforts: Some(Efforts::of(&efforts)),
            temperature: Some(temperature),
            cache_hint: Some(cache_hint),
            tool_schema: Some(tool_schema),
            ..TargetOverrides::NONE
        }
    }
}

/// Any row, which is any server.
fn row() -> impl Strategy<Value = Target> {
    let cautious = target(Dialect::OpenaiChat, None, "", "m");
    (of_messages(), of_heads())
        .prop_map(move |(messages, heads)| cautious.with(&messages).with(&heads))
}

/// The bytes say exactly what the value says, and waste no memory.
fn check(req: &ChatRequest, row: Target, joined: &Joined) -> Result<(), TestCaseError> {
    for dialect in Dialect::ALL {
        let body = body(dialect, req, row, joined);
        prop_assert_eq!(body.capacity(), body.len());
        prop_assert_eq!(parse(&body), to_wire(dialect, req, row), "{:?}", dialect);
    }
    Ok(())
}

fn parse(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("a body is JSON")
}

proptest! {
    #[test]
    fn the_joined_body_is_the_request_also_after_the_transcript_grew(
        mut req in request(),
        more in vec(message(), 0..4),
        row in row(),
    ) {
        let joined = Joined::default();
        check(&req, row, &joined)?;
        for message in more {
            req.messages.push(message);
            check(&req, row, &joined)?;
        }
    }

    #[test]
    fn the_joined_body_is_the_request_also_after_a_part_was_replaced_or_another_model_asked(
        mut req in request(),
        (from, upto) in any::<(prop::sample::Index, prop::sample::Index)>(),
        instead in vec(message(), 0..2),
        rows in (row(), row()),
    ) {
        let joined = Joined::default();
        check(&req, rows.0, &joined)?;
        let (from, upto) = (from.index(req.messages.len() + 1), upto.index(req.messages.len() + 1));
        req.messages.splice(from.min(upto)..from.max(upto), instead);
        check(&req, rows.0, &joined)?;
        check(&req, rows.1, &joined)?;
        req.model.push('2');
        check(&req, rows.0, &joined)?;
    }

    #[test]
    fn a_changed_message_is_sent_as_it_is_now(
        mut req in request(),
        at in any::<prop::sample::Index>(),
        extra in block(),
        row in row(),
    ) {
        let joined = Joined::default();
        check(&req, row, &joined)?;
        if !req.messages.is_empty() {
            let at = at.index(req.messages.len());
            Arc::make_mut(&mut req.messages[at]).content_mut().push(extra);
        }
        check(&req, row, &joined)?;
    }

    #[test]
    fn no_message_is_sent_empty(req in request(), row in row()) {
        let sent = to_wire(Dialect::Anthropic, &req, row);
        let messages = sent["messages"].as_array().expect("a list");
        prop_assert_eq!(messages.len(), req.messages.len());
        for message in messages {
            prop_assert!(message["content"].as_array().is_some_and(|blocks| !blocks.is_empty()));
        }
        let sent = to_wire(Dialect::OpenaiChat, &req, row);
        for message in sent["messages"].as_array().expect("a list") {
            let calls = message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
            prop_assert!(calls || !message["content"].is_null());
        }
        for message in &req.messages {
            let one = ChatRequest { messages: vec![Arc::clone(message)], ..ChatRequest::default() };
            let items = to_wire(Dialect::OpenaiResponses, &one, row)["input"].take();
            let items = items.as_array().expect("a list");
            prop_assert!(!items.is_empty());
            let silent = |item: &Value| item["content"].as_array().is_some_and(Vec::is_empty);
            prop_assert!(!items.iter().any(silent), "{:?}", items);
        }
        let sent = to_wire(Dialect::Gemini, &req, row);
        let contents = sent["contents"].as_array().expect("a list");
        prop_assert_eq!(contents.len(), req.messages.len());
        for content in contents {
            prop_assert!(content["parts"].as_array().is_some_and(|parts| !parts.is_empty()));
        }
    }

    #[test]
    fn sealed_reasoning_is_followed_by_something_and_no_message_is_sent_twice(
        req in request(),
        row in row(),
    ) {
        for message in &req.messages {
            let one = ChatRequest { messages: vec![Arc::clone(message)], ..ChatRequest::default() };
            let items = to_wire(Dialect::OpenaiResponses, &one, row)["input"].take();
            let items = items.as_array().expect("a list");
            // An opaque item of the same look is sent as it came, whatever it is.
            let opaque = message.content().iter().any(|block| block.kind() == "opaque");
            let last = items.last().map(|item| item["type"] == "reasoning");
            prop_assert!(opaque || last != Some(true), "{:?}", items);
            let messages = items.iter().filter(|item| item["type"] == "message");
            let ids: Vec<Value> = messages.filter_map(|item| item.get("id").cloned()).collect();
            prop_assert!(opaque || distinct(&ids) == ids.len(), "{:?}", items);
        }
    }

    #[test]
    fn a_legal_dialogue_stays_legal_when_another_model_goes_on(
        messages in dialogue(),
        foreign in vec(any::<bool>(), 9),
        foreign_calls in any::<bool>(),
        row in row(),
        to in prop::sample::select(Dialect::ALL.to_vec()),
    ) {
        prop_assume!(validate_transcript(&messages, Tail::Settled).is_ok());
        let mark = |(message, foreign): (Arc<Message>, bool)| match message.role() {
            Role::User => message,
            Role::Assistant => {
                Arc::new(Message::clone(&message).by(if foreign { "p:old" } else { "p:new" }))
            }
        };
        let messages = messages.into_iter().zip(foreign.into_iter().cycle()).map(mark).collect();
        let req = ChatRequest { messages, ..ChatRequest::default() };
        let target = Target { foreign_calls, ..row };
        let reader = Reader { author: "p:new".into(), dialect: to, target };
        let handoff = prepare(&req, &reader);
        prop_assert_eq!(validate_transcript(&handoff.messages, Tail::Settled), Ok(()));
        prop_assert_eq!(handoff.messages.len(), req.messages.len());
        prop_assert!(!foreign_calls || handoff.calls_told == 0);
        let calls = |messages: &[Arc<Message>]| -> usize {
            messages.iter().map(|message| message.tool_calls().count()).sum()
        };
        prop_assert_eq!(calls(&handoff.messages) + handoff.calls_told, calls(&req.messages));
    }

    #[test]
    fn a_call_and_its_result_keep_one_id_and_two_calls_keep_two(
        ids in proptest::collection::hash_set(id(), 1..5),
        row in row(),
    ) {
        let ids = Vec::from_iter(ids);
        let calls = ids.iter().map(|id| ContentBlock::ToolCall {
            id: id.clone(), name: "t".into(), arguments: json!({}), meta: None,
        });
        let results = ids.iter().map(|id| ContentBlock::tool_result(id, "ok", false));
        let messages = vec![
            Arc::new(Message::new(Role::Assistant, calls.collect())),
            Arc::new(Message::new(Role::User, results.collect())),
        ];
        let req = ChatRequest { messages, ..ChatRequest::default() };
        let ids_at = |list: &Value, field: &str| -> Vec<Value> {
            list.as_array().expect("a list").iter().map(|item| item[field].clone()).collect()
        };

        let sent = to_wire(Dialect::Anthropic, &req, row);
        let called = ids_at(&sent["messages"][0]["content"], "id");
        prop_assert_eq!(&called, &ids_at(&sent["messages"][1]["content"], "tool_use_id"));
        prop_assert_eq!(distinct(&called), ids.len());

        let sent = to_wire(Dialect::OpenaiChat, &req, row);
        let called = ids_at(&sent["messages"][0]["tool_calls"], "id");
        let answers = Value::from(sent["messages"].as_array().expect("a list")[1..].to_vec());
        prop_assert_eq!(&called, &ids_at(&answers, "tool_call_id"));
        prop_assert_eq!(distinct(&called), ids.len());

        let sent = to_wire(Dialect::OpenaiResponses, &req, row);
        let (called, answered) = sent["input"].as_array().expect("a list").split_at(ids.len());
        let called = ids_at(&Value::from(called.to_vec()), "call_id");
        prop_assert_eq!(&called, &ids_at(&Value::from(answered.to_vec()), "call_id"));
        prop_assert_eq!(distinct(&called), ids.len());
    }

    #[test]
    fn results_stand_in_the_order_of_their_calls_and_under_their_names(
        ids in proptest::collection::hash_set(id(), 1..5),
        results in any::<prop::sample::Index>(),
        row in row(),
    ) {
        let ids = Vec::from_iter(ids);
        let calls = ids.iter().enumerate().map(|(number, id)| ContentBlock::ToolCall {
            id: id.clone(), name: format!("t{number}"), arguments: json!({}), meta: None,
        });
        let mut answers: Vec<ContentBlock> =
            ids.iter().map(|id| ContentBlock::tool_result(id, id.as_str(), false)).collect();
        answers.rotate_left(results.index(ids.len()));
        let messages = vec![
            Arc::new(Message::new(Role::Assistant, calls.collect())),
            Arc::new(Message::new(Role::User, answers)),
        ];
        let req = ChatRequest { messages, ..ChatRequest::default() };
        let sent = to_wire(Dialect::Gemini, &req, row);
        for (number, id) in ids.iter().enumerate() {
            let name = format!("t{number}");
            let response = &sent["contents"][1]["parts"][number]["functionResponse"];
            prop_assert_eq!(&sent["contents"][0]["parts"][number]["functionCall"]["name"], &name);
            prop_assert_eq!(response, &json!({"name": name, "response": {"result": id}}));
        }
    }

    #[test]
    fn a_transcript_is_accepted_exactly_when_it_keeps_every_rule(
        messages in prop_oneof![dialogue(), vec(message(), 0..4)],
    ) {
        let mut checker = TranscriptChecker::default();
        let step_by_step = messages.iter().try_for_each(|message| checker.push(message));
        for tail in [Tail::Settled, Tail::MayBePending] {
            let want = keeps_the_rules(&messages, tail);
            prop_assert_eq!(validate_transcript(&messages, tail).is_ok(), want);
            let incremental = step_by_step.clone().and_then(|()| checker.finish(tail));
            prop_assert_eq!(incremental.is_ok(), want);
        }
    }

    #[test]
    fn a_stored_message_loads_as_it_was(message in message()) {
        let stored = serde_json::to_string(&*message).expect("a message has a stored form");
        let loaded: Message = serde_json::from_str(&stored).expect("its own form loads");
        prop_assert_eq!(&loaded, &*message);
    }
}

/// The rules of a legal dialogue, each looked up in the whole transcript without any state.
fn keeps_the_rules(messages: &[Arc<Message>], tail: Tail) -> bool {
    let calls = |message: &Message| -> Vec<String> {
        message.tool_calls().map(|call| call.id.to_owned()).collect()
    };
    let results = |message: &Message| -> Vec<String> {
        let id = |block: &ContentBlock| match block {
            ContentBlock::ToolResult { call_id, .. } => Some(call_id.clone()),
            _ => None,
        };
        message.content().iter().filter_map(id).collect()
    };
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    let all: Vec<String> = messages.iter().flat_map(|message| calls(message)).collect();
    let unique = all.iter().collect::<std::collections::HashSet<_>>().len() == all.len();
    let named = all.iter().all(|id| !id.is_empty());
    let roles = messages.iter().enumerate().all(|(at, message)| {
        let turn = if at % 2 == 0 { Role::User } else { Role::Assistant };
        let own = message.role() == Role::User || results(message).is_empty();
        let other = message.role() == Role::Assistant || calls(message).is_empty();
        message.role() == turn && own && other
    });
    let answered = (0..messages.len()).all(|at| {
        let asked = at.checked_sub(1).map(|before| calls(&messages[before])).unwrap_or_default();
        messages[at].role() == Role::Assistant || sorted(asked) == sorted(results(&messages[at]))
    });
    let open = messages.last().is_some_and(|last| !calls(last).is_empty());
    unique && named && roles && answered && (tail == Tail::MayBePending || !open)
}

fn distinct(ids: &[Value]) -> usize {
    ids.iter().map(Value::to_string).collect::<std::collections::HashSet<_>>().len()
}
