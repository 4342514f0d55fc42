//! What is asked of an Ollama beside the shared dialect.

use std::time::Duration;

use llm::LlmError;
use llm::providers::ollama::loaded_context;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_server_is_asked_beside_its_v1_surface() {
    let server = MockServer::start().await;
    let running = r#"{"models":[{"name":"qwen3:8b","context_length":4096}]}"#;
    Mock::given(method("GET"))
        .and(path("/api/ps"))
        .respond_with(ResponseTemplate::new(200).set_body_string(running))
        .expect(2)
        .mount(&server)
        .await;
    for base in [format!("{}/v1", server.uri()), format!("{}/v1/", server.uri())] {
        assert_eq!(loaded_context(&base, "qwen3:8b", LONG).await.unwrap(), Some(4096));
    }
}

#[tokio::test]
async fn another_server_of_the_dialect_does_not_tell() {
    let server = MockServer::start().await;
    let error = loaded_context(&format!("{}/v1", server.uri()), "m", LONG).await.unwrap_err();
    assert!(matches!(error, LlmError::Http { status: 404, .. }), "{error:?}");
}
