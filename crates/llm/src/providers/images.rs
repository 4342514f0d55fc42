//! Which pictures of a message a target takes, and where; pure.

use std::borrow::Cow;

use crate::capability::{ResultImages, Target};
use crate::types::{ContentBlock, ImageData, Message, Role};

/// The message with every picture where the target takes it, and a text in the place of one that it
/// does not take. `origin` names a result by the id of its call, as the model will know it.
pub(super) fn placed<'a>(
    message: &'a Message,
    target: Target,
    origin: impl Fn(&str) -> String,
) -> Cow<'a, Message> {
    let all_stay = message.content().iter().all(|block| match block {
        ContentBlock::Image(image) => refusal(image, target).is_none(),
        ContentBlock::ToolResult { images, .. } => {
            images.is_empty()
                || target.result_images == ResultImages::Inside
                    && images.iter().all(|image| refusal(image, target).is_none())
        }
        ContentBlock::Text { .. }
        | ContentBlock::Reasoning { .. }
        | ContentBlock::ToolCall { .. }
        | ContentBlock::Opaque { .. } => true,
    });
    if all_stay || message.role() == Role::Assistant {
        return Cow::Borrowed(message);
    }
    let (mut results, mut beside, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for block in message.content() {
        match block {
            ContentBlock::Image(image) => rest.push(shown(image, target)),
            ContentBlock::ToolResult { call_id, content, is_error, images } => {
                let Pictures { content, inside, outside } = sorted(content, images, target);
                if !outside.is_empty() {
                    let line = format!("Images from the result of {}:", origin(call_id));
                    beside.push(ContentBlock::text(line));
                    beside.extend(outside.into_iter().map(ContentBlock::Image));
                }
                let (call_id, is_error) = (call_id.clone(), *is_error);
                let images = inside;
                results.push(ContentBlock::ToolResult { call_id, content, is_error, images });
            }
            ContentBlock::Text { .. }
            | ContentBlock::Reasoning { .. }
            | ContentBlock::ToolCall { .. }
            | ContentBlock::Opaque { .. } => rest.push(block.clone()),
        }
    }
    results.append(&mut beside);
    results.append(&mut rest);
    Cow::Owned(Message::new(message.role(), results))
}

/// The text and the pictures of a result, each picture where the target takes it.
struct Pictures {
    content: String,
    inside: Vec<ImageData>,
    outside: Vec<ImageData>,
}

fn sorted(content: &str, images: &[ImageData], target: Target) -> Pictures {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    let mut content = content.to_owned();
    for image in images {
        match refusal(image, target) {
            Some(why) if content.is_empty() => content = why,
            Some(why) => content = format!("{content}\n{why}"),
            None if target.result_images == ResultImages::Inside => inside.push(image.clone()),
            None => outside.push(image.clone()),
        }
    }
    Pictures { content, inside, outside }
}

fn shown(image: &ImageData, target: Target) -> ContentBlock {
    match refusal(image, target) {
        Some(why) => ContentBlock::text(why),
        None => ContentBlock::Image(image.clone()),
    }
}

/// What the model reads in the place of a picture that the target does not take.
fn refusal(image: &ImageData, target: Target) -> Option<String> {
    let kind = &image.media_type;
    if !target.images {
        return Some(format!("[a picture ({kind}) is left out: this model sees no pictures]"));
    }
    let (size, limit) = (image.data.len(), target.max_image_bytes as usize);
    (size > limit).then(|| {
        format!(
            "[a picture ({kind}) is left out: it has {size} bytes in base64, and this service takes \
             at most {limit}]"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::{Dialect, TargetOverrides, target};

    fn picture(bytes: usize) -> ImageData {
        ImageData { media_type: "image/png".into(), data: "A".repeat(bytes) }
    }

    fn result(content: &str, images: Vec<ImageData>) -> ContentBlock {
        ContentBlock::ToolResult {
            call_id: "c1".into(),
            content: content.into(),
            is_error: false,
            images,
        }
    }

    fn row(told: TargetOverrides) -> Target {
        target(Dialect::Anthropic, Some("anthropic"), "", "m").with(&told)
    }

    fn content(blocks: Vec<ContentBlock>, target: Target) -> Vec<ContentBlock> {
        let message = Message::new(Role::User, blocks);
        placed(&message, target, |id| format!("call {id}")).content().to_vec()
    }

    #[test]
    fn a_message_whose_pictures_may_stay_is_not_copied() {
        let message = Message::new(
            Role::User,
            vec![ContentBlock::Image(picture(4)), result("x", vec![picture(4)])],
        );
        let placed = placed(&message, row(TargetOverrides::NONE), str::to_owned);
        assert!(matches!(placed, Cow::Borrowed(_)));
    }

    #[test]
    fn a_model_that_sees_no_pictures_reads_that_there_was_one() {
        let blind = row(TargetOverrides { images: Some(false), ..TargetOverrides::NONE });
        let text = "[a picture (image/png) is left out: this model sees no pictures]";
        let blocks = vec![ContentBlock::Image(picture(4)), result("see", vec![picture(4)])];
        assert_eq!(
            content(blocks, blind),
            [result(&format!("see\n{text}"), Vec::new()), ContentBlock::text(text)]
        );
        assert_eq!(content(vec![result("", vec![picture(4)])], blind), [result(text, Vec::new())]);
    }

    #[test]
    fn a_picture_is_measured_as_it_is_sent() {
        let small = row(TargetOverrides { max_image_bytes: Some(8), ..TargetOverrides::NONE });
        assert_eq!(
            content(vec![ContentBlock::Image(picture(8)), ContentBlock::Image(picture(9))], small),
            [
                ContentBlock::Image(picture(8)),
                ContentBlock::text(
                    "[a picture (image/png) is left out: it has 9 bytes in base64, and this service \
                     takes at most 8]"
                ),
            ]
        );
    }

    #[test]
    fn pictures_beside_results_follow_them_with_their_origin() {
        let beside =
            TargetOverrides { result_images: Some(ResultImages::Beside), ..TargetOverrides::NONE };
        let blocks = vec![ContentBlock::text("and?"), result("see", vec![picture(4)])];
        assert_eq!(
            content(blocks, row(beside)),
            [
                result("see", Vec::new()),
                ContentBlock::text("Images from the result of call c1:"),
                ContentBlock::Image(picture(4)),
                ContentBlock::text("and?"),
            ]
        );
    }
}
