//! Which tools a target can be offered, with the schema it takes; pure.

use std::borrow::Cow;

use serde_json::Value;

use crate::schema::{self, SchemaDialect, SchemaError};
use crate::types::{ChatRequest, ToolSpec};

/// The tools of a request whose schema the target can take, each with that schema. One tool that it
/// cannot take would make it refuse the whole request.
pub(super) fn offered(
    req: &ChatRequest,
    dialect: SchemaDialect,
) -> impl Iterator<Item = (&ToolSpec, Cow<'_, Value>)> {
    req.tools.iter().filter_map(move |tool| {
        let schema = schema::compile(&tool.input_schema, dialect).ok()?;
        Some((tool, schema))
    })
}

/// The names of the others, with the reason.
pub(crate) fn left_out(
    req: &ChatRequest,
    dialect: SchemaDialect,
) -> impl Iterator<Item = (&str, SchemaError)> {
    req.tools.iter().filter_map(move |tool| {
        let error = schema::compile(&tool.input_schema, dialect).err()?;
        Some((tool.name.as_str(), error))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_whose_schema_has_no_equal_is_left_out_and_the_others_stay() {
        let tool = |name: &str, input_schema| ToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema,
        };
        let union = json!({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}});
        let tools =
            vec![tool("bare", json!({})), tool("union", union), tool("broken", json!("text"))];
        let req = ChatRequest { tools, ..ChatRequest::default() };
        let names = |dialect| -> Vec<&str> {
            offered(&req, dialect).map(|(tool, _)| tool.name.as_str()).collect()
        };
        assert_eq!(names(SchemaDialect::Full), ["bare", "union"]);
        assert_eq!(names(SchemaDialect::Limited), ["bare"]);
        let reasons: Vec<(&str, String)> = left_out(&req, SchemaDialect::Limited)
            .map(|(name, error)| (name, error.path))
            .collect();
        assert_eq!(
            reasons,
            [("union", "/properties/a/type".to_owned()), ("broken", String::new())]
        );
        let (_, schema) = offered(&req, SchemaDialect::Full).next().unwrap();
        assert_eq!(*schema, json!({"type": "object", "properties": {}}));
    }
}
