use schemars::JsonSchema;

use super::*;

/// Both a value of the subset, and the place of a refusal.
#[track_caller]
fn check(property: Value, want: Result<Value, &str>) {
    let schema = json!({"type": "object", "properties": {"p": property}, "$defs": definitions()});
    let got = compile(&schema, SchemaDialect::Limited);
    let got = got.map(|schema| schema["properties"]["p"].clone()).map_err(|error| error.path);
    assert_eq!(got, want.map_err(|path| format!("/properties/p{path}")), "{schema}");
    assert_eq!(compile(&schema, SchemaDialect::Full).unwrap(), Cow::Borrowed(&schema));
}

fn definitions() -> Value {
    json!({
        "Mood": {"type": "string", "enum": ["good", "bad"], "description": "How it goes."},
        "Mood again": {"$ref": "#/$defs/Mood"},
        "Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}},
        "Circle": {"$ref": "#/$defs/Round"},
        "Round": {"$ref": "#/$defs/Circle"},
    })
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Arguments {
    /// What to look for.
    pattern: String,
    /// Where; everywhere when absent.
    folder: Option<String>,
    /// The lines.
    lines: Vec<u32>,
    mood: Option<Mood>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
#[schemars(rename_all = "snake_case")]
enum Mood {
    Good,
    Bad,
}

#[test]
fn the_schema_of_a_struct_with_an_option_and_a_list_has_an_equal_in_the_subset() {
    let schema = schemars::schema_for!(Arguments).to_value();
    insta::assert_json_snapshot!(compile(&schema, SchemaDialect::Limited).unwrap());
    assert_eq!(*compile(&schema, SchemaDialect::Full).unwrap(), schema);
}

#[test]
fn null_beside_one_type_becomes_nullable() {
    let want = json!({"type": "string", "nullable": true});
    check(json!({"type": ["string", "null"]}), Ok(want.clone()));
    check(json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), Ok(want.clone()));
    check(json!({"oneOf": [{"const": null}, {"type": "string"}]}), Ok(want.clone()));
    check(json!({"type": "string", "nullable": true}), Ok(want));
    let chosen = json!({"type": "string", "nullable": true, "enum": ["a"]});
    check(json!({"type": ["string", "null"], "enum": ["a", null]}), Ok(chosen.clone()));
    check(json!({"enum": ["a", null]}), Ok(chosen));
    check(
        json!({"type": ["string", "null"], "enum": ["a"]}),
        Ok(json!({"type": "string", "enum": ["a"]})),
    );
}

#[test]
fn a_real_union_is_refused_and_never_narrowed() {
    check(json!({"type": ["string", "integer"]}), Err("/type"));
    check(json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), Err("/anyOf"));
    check(
        json!({"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
        Err("/oneOf"),
    );
    check(json!({"allOf": [{"type": "string"}, {"minLength": 1}]}), Err("/allOf"));
    check(json!({"anyOf": []}), Err("/anyOf"));
    check(json!({"type": "null"}), Err("/type"));
    check(json!({"type": []}), Err("/type"));
    check(json!({"type": "text"}), Err("/type"));
    check(json!({}), Err(""));
    check(json!(true), Err(""));
}

#[test]
fn what_only_explains_is_left_out_and_what_restricts_is_kept_or_refused() {
    check(
        json!({
            "type": "integer", "title": "T", "default": 1, "examples": [1], "format": "uint8",
            "x-order": 1, "description": "d", "minimum": 0, "maximum": 255, "pattern": "of a string",
        }),
        Ok(json!({"type": "integer", "description": "d", "minimum": 0, "maximum": 255})),
    );
    check(
        json!({"type": "number", "format": "double"}),
        Ok(json!({"type": "number", "format": "double"})),
    );
    check(
        json!({"type": "string", "minLength": 1, "pattern": "a", "format": "date-time"}),
        Ok(json!({"type": "string", "format": "date-time", "minLength": 1, "pattern": "a"})),
    );
    check(json!({"type": "integer", "exclusiveMinimum": 0}), Err("/exclusiveMinimum"));
    check(
        json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        Err("/uniqueItems"),
    );
    check(json!({"not": {"type": "string"}}), Err("/not"));
    check(json!({"type": "object", "patternProperties": {}}), Err("/patternProperties"));
}

#[test]
fn constants_and_choices_are_strings() {
    let want = json!({"type": "string", "enum": ["x"]});
    check(json!({"const": "x", "default": "x"}), Ok(want.clone()));
    check(json!({"enum": ["x"]}), Ok(want));
    check(json!({"const": 1}), Err("/const"));
    check(json!({"const": null}), Err("/const"));
    check(json!({"enum": []}), Err("/enum"));
    check(json!({"enum": "x"}), Ok(json!({"type": "string", "enum": ["x"]})));
    check(json!({"type": "integer", "enum": [1, 2]}), Err("/enum"));
    check(json!({"type": "integer", "enum": ["1"]}), Err("/enum"));
}

#[test]
fn lists_say_of_what_and_objects_of_which_properties() {
    let strings = json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    check(strings.clone(), Ok(strings));
    check(json!({"type": "array"}), Err(""));
    check(json!({"type": "array", "items": [{"type": "string"}]}), Err(""));
    check(json!({"type": "array", "items": {"type": "array"}}), Err("/items"));
    let object =
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "boolean"}}});
    check(object.clone(), Ok(object.clone()));
    let mut closed = object.clone();
    closed["additionalProperties"] = json!(false);
    check(closed.clone(), Ok(object.clone()));
    closed["additionalProperties"] = json!({});
    check(closed.clone(), Ok(object));
    closed["additionalProperties"] = json!({"type": "string"});
    check(closed, Err("/additionalProperties"));
    check(json!({"type": "object", "required": ["b"], "properties": {}}), Err("/required"));
    check(json!({"type": "object", "properties": {"a/b~": {}}}), Err("/properties/a~1b~0"));
    check(json!({"type": "object", "properties": []}), Err("/properties"));
}

#[test]
fn a_property_named_like_a_keyword_stays_a_required_property() {
    let names = ["title", "description", "$schema", "type", "$ref", "default", "anyOf", "const"];
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "required": names, "properties": properties});
    for dialect in [SchemaDialect::Full, SchemaDialect::Limited] {
        assert_eq!(*compile(&schema, dialect).unwrap(), schema, "{dialect:?}");
    }
}

#[test]
fn references_are_replaced_by_what_they_stand_for() {
    let mood = json!({"type": "string", "description": "How it goes.", "enum": ["good", "bad"]});
    check(json!({"$ref": "#/$defs/Mood"}), Ok(mood.clone()));
    check(json!({"$ref": "#/$defs/Mood%20again"}), Ok(mood.clone()));
    check(json!({"allOf": [{"$ref": "#/$defs/Mood"}]}), Ok(mood.clone()));
    check(json!({"type": "string", "$ref": "#/$defs/Mood"}), Ok(mood));
    let own = json!({"type": "string", "nullable": true, "description": "Mine.", "enum": ["good", "bad"]});
    let nullable =
        json!({"anyOf": [{"$ref": "#/$defs/Mood"}, {"type": "null"}], "description": "Mine."});
    check(nullable, Ok(own));
    check(json!({"$ref": "#/$defs/Mood", "enum": ["good"]}), Err("/enum"));
    check(json!({"$ref": "#/$defs/Mood", "type": "integer"}), Err("/type"));
}

#[test]
fn a_reference_to_nothing_or_to_itself_is_refused() {
    for (reference, inside) in [
        ("#/$defs/Missing", ""),
        ("https://example.org/schema.json", ""),
        ("#/$defs/Tree", "/properties/left"),
        ("#/$defs/Circle", ""),
        ("#", "/properties/p"),
        ("#/properties/p", ""),
    ] {
        check(json!({"$ref": reference}), Err(inside));
    }
    check(json!({"$ref": 5}), Err(""));
}

#[test]
fn references_that_stand_for_a_flood_are_refused_at_once() {
    let mut definitions = Map::new();
    for level in 0..20 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        let properties: Map<String, Value> =
            (0..10).map(|at| (format!("p{at}"), next.clone())).collect();
        let schema = json!({"type": "object", "properties": properties});
        definitions.insert(format!("d{level}"), schema);
    }
    definitions.insert("d20".to_owned(), json!({"type": "string"}));
    let schema = json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
    let error = compile(&schema, SchemaDialect::Limited).unwrap_err();
    assert!(error.reason.contains("bytes"), "{error}");

    let long = json!({"type": "string", "description": "x".repeat(100_000)});
    let properties: Map<String, Value> =
        (0..100).map(|at| (format!("p{at}"), json!({"$ref": "#/$defs/long"}))).collect();
    let schema = json!({"type": "object", "properties": properties, "$defs": {"long": long}});
    assert!(compile(&schema, SchemaDialect::Limited).is_err());
}

#[test]
fn a_chain_or_a_nest_of_any_depth_does_not_exhaust_the_stack() {
    let mut definitions = Map::new();
    for level in 0..50_000 {
        definitions.insert(format!("d{level}"), json!({"$ref": format!("#/$defs/d{}", level + 1)}));
    }
    let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
    assert!(compile(&schema, SchemaDialect::Limited).is_err());

    for wrap in ["items", "allOf"] {
        let mut nest = json!({"type": "string"});
        for _ in 0..200 {
            nest = match wrap {
                "items" => json!({"type": "array", "items": nest}),
                _ => json!({"allOf": [nest]}),
            };
        }
        let schema = json!({"type": "object", "properties": {"p": nest}});
        assert!(compile(&schema, SchemaDialect::Limited).is_err(), "{wrap}");
        assert_eq!(*compile(&schema, SchemaDialect::Full).unwrap(), schema);
    }
}

#[test]
fn a_root_that_leaves_its_type_open_is_an_object() {
    #[track_caller]
    fn check(schema: Value, want: Option<Value>) {
        assert_eq!(
            compile(&schema, SchemaDialect::Full).ok().map(Cow::into_owned),
            want,
            "{schema}"
        );
    }
    let empty = json!({"type": "object", "properties": {}});
    for open in [json!({}), json!({"type": "object"}), json!({"type": null, "properties": null})] {
        check(open, Some(empty.clone()));
    }
    check(json!({"type": "object", "properties": null}), Some(empty.clone()));
    check(
        json!({"properties": {"a": {}}}),
        Some(json!({"type": "object", "properties": {"a": {}}})),
    );
    let union = json!({"anyOf": [{"type": "object"}, {"required": ["a"]}]});
    check(union.clone(), Some(union.clone()));
    check(
        json!({"type": ["object", "null"], "properties": {}}),
        Some(json!({"type": ["object", "null"], "properties": {}})),
    );
    for wrong in [
        json!(null),
        json!(true),
        json!([]),
        json!("object"),
        json!({"type": "string"}),
        json!({"type": ["null"]}),
    ] {
        check(wrong, None);
    }
    assert_eq!(*compile(&json!({}), SchemaDialect::Limited).unwrap(), empty);
    assert!(compile(&union, SchemaDialect::Limited).is_err());
}

#[test]
fn a_target_with_a_plain_root_refuses_what_is_composed_or_oddly_named_there() {
    #[track_caller]
    fn check(schema: Value, want: Result<(), &str>) {
        let got = compile(&schema, SchemaDialect::PlainRoot);
        assert_eq!(
            got.map(|sent| assert_eq!(*sent, schema)).map_err(|e| e.path),
            want.map_err(str::to_owned)
        );
    }
    let nested = json!({"type": "object", "properties": {"a.b_c-1": {
        "anyOf": [{"type": "string"}, {"type": "object", "properties": {"é": {}}}],
    }}});
    check(nested, Ok(()));
    let required = json!([{"required": ["a"]}, {"required": ["b"]}]);
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let schema = json!({"type": "object", "properties": {}, keyword: required});
        check(schema, Err(&format!("/{keyword}")));
    }
    check(json!({"$ref": "#/$defs/A"}), Err("/$ref"));
    for name in ["", "filter[id]", "a b", "naïve", &"a".repeat(65)] {
        let schema = json!({"type": "object", "properties": {name: {"type": "string"}}});
        check(schema, Err(&format!("/properties/{name}")));
    }
}

#[test]
fn a_refusal_names_the_place_and_the_reason() {
    let schema = json!({"type": "object", "properties": {"t": {"type": ["string", "integer"]}}});
    let error = compile(&schema, SchemaDialect::Limited).unwrap_err();
    assert_eq!(
        error.to_string(),
        "its schema cannot be sent: /properties/t/type is a union, which is not supported"
    );
    let error = compile(&json!([]), SchemaDialect::Full).unwrap_err();
    assert_eq!(error.to_string(), "its schema cannot be sent: the root is no object");
}
