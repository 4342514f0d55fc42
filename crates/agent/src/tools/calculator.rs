//! The smallest tool: arithmetic the model should not do in its head.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tool::{Effects, OnCancel, ReplaySafety, ToolContext, ToolError, ToolOutput, TypedTool};

/// Adds, subtracts, multiplies and divides two numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Calculator;

/// One calculation.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalculatorArgs {
    /// The left operand.
    pub a: f64,
    /// The right operand.
    pub b: f64,
    /// What to do with them.
    pub op: Op,
}

/// The four operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "documented variants would each repeat their name to the model")]
pub enum Op {
    Add,
    Sub,
    Mul,
    Div,
}

#[async_trait]
impl TypedTool for Calculator {
    type Args = CalculatorArgs;

    fn name(&self) -> &str {
        "calculator"
    }

    fn description(&self) -> &str {
        "Computes a op b exactly as 64-bit floating point does."
    }

    fn effects(&self, _args: &CalculatorArgs) -> Effects {
        Effects::none()
    }

    fn on_cancel(&self) -> OnCancel {
        OnCancel::Atomic
    }

    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }

    async fn run(
        &self,
        CalculatorArgs { a, b, op }: CalculatorArgs,
        _ctx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let result = match op {
            Op::Add => a + b,
            Op::Sub => a - b,
            Op::Mul => a * b,
            Op::Div if b == 0.0 => {
                return Err(ToolError::Failed("Division by zero. Use a non-zero b.".to_owned()));
            }
            Op::Div => a / b,
        };
        if !result.is_finite() {
            return Err(ToolError::Failed(
                "The result does not fit a 64-bit float. Use smaller operands.".to_owned(),
            ));
        }
        Ok(result.to_string().into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::tool::Tool;

    async fn calculate(args: Value) -> Result<String, ToolError> {
        let ctx = ToolContext {
            cwd: "/".into(),
            cancel: CancellationToken::new(),
            session_id: String::new(),
            output: None,
            grants: crate::tool::Grants::default(),
            redactor: std::sync::Arc::default(),
        };
        Tool::call(&Calculator, args, &ctx).await.map(|output| output.text)
    }

    #[test]
    fn the_schema_shows_the_operations_and_describes_every_field() {
        insta::assert_json_snapshot!(Tool::input_schema(&Calculator), @r#"
        {
          "type": "object",
          "additionalProperties": false,
          "properties": {
            "a": {
              "type": "number",
              "description": "The left operand."
            },
            "b": {
              "type": "number",
              "description": "The right operand."
            },
            "op": {
              "type": "string",
              "enum": [
                "add",
                "sub",
                "mul",
                "div"
              ],
              "description": "What to do with them."
            }
          },
          "required": [
            "a",
            "b",
            "op"
          ]
        }
        "#);
    }

    #[tokio::test]
    async fn each_operation_gives_its_result() {
        for (op, want) in [("add", "10"), ("sub", "5"), ("mul", "18.75"), ("div", "3")] {
            assert_eq!(calculate(json!({"a": 7.5, "b": 2.5, "op": op})).await.unwrap(), want);
        }
    }

    #[tokio::test]
    async fn a_missing_field_is_named() {
        let error = calculate(json!({"a": 1})).await.unwrap_err();
        assert!(matches!(&error, ToolError::InvalidArgs(text) if text.contains("`b`")), "{error}");
    }

    #[tokio::test]
    async fn a_field_that_does_not_exist_is_named() {
        let error =
            calculate(json!({"a": 1, "b": 2, "op": "add", "precision": 3})).await.unwrap_err();
        assert!(matches!(&error, ToolError::InvalidArgs(text) if text.contains("precision")));
    }

    #[tokio::test]
    async fn dividing_by_zero_says_what_to_do_instead() {
        assert_eq!(
            calculate(json!({"a": 1, "b": 0, "op": "div"})).await,
            Err(ToolError::Failed("Division by zero. Use a non-zero b.".into()))
        );
    }

    #[tokio::test]
    async fn a_result_beyond_the_floats_is_an_error_and_not_infinity() {
        assert!(calculate(json!({"a": 1e308, "b": 10, "op": "mul"})).await.is_err());
    }
}
