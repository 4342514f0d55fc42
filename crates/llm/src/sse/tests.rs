//! The grammar, the limits, and that neither depends on how the bytes are cut.

use proptest::prelude::*;

use super::*;

fn event(name: Option<&str>, data: &str) -> SseEvent {
    SseEvent { event: name.map(str::to_owned), data: data.to_owned() }
}

/// Decodes chunk by chunk; what came before an error counts.
fn decode_with<'a>(
    limits: SseLimits,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<SseEvent>, Option<SseError>) {
    let mut decoder = SseDecoder::with_limits(limits);
    let mut events = Vec::new();
    for chunk in chunks {
        let fed = decoder.feed(chunk, |frame| {
            events.push(frame.into());
            Ok::<(), SseError>(())
        });
        if let Err(error) = fed {
            return (events, Some(error));
        }
    }
    (events, None)
}

/// Checks the events of `body` whole, byte by byte and cut in two at every offset.
#[track_caller]
fn check(body: impl AsRef<[u8]>, want: &[SseEvent]) {
    let body = body.as_ref();
    let limits = SseLimits::default();
    assert_eq!(decode_with(limits, [body]), (want.to_vec(), None), "whole");
    assert_eq!(decode_with(limits, body.chunks(1)), (want.to_vec(), None), "byte by byte");
    for at in 0..=body.len() {
        let (first, second) = body.split_at(at);
        assert_eq!(decode_with(limits, [first, second]), (want.to_vec(), None), "cut at {at}");
    }
}

#[test]
fn every_cut_of_a_mixed_stream_gives_the_same_events() {
    check(
        "event: a\ndata: one\ndata: two\n\n: note\ndata: x\r\n\r\ndata: 🚀\n\n",
        &[event(Some("a"), "one\ntwo"), event(None, "x"), event(None, "🚀")],
    );
}

#[test]
fn line_feeds_carriage_returns_and_both_end_a_line() {
    let want = [event(Some("a"), "one\ntwo"), event(None, "three")];
    for end in ["\n", "\r", "\r\n"] {
        let body = "event:a|data:one|data:two||data:three||".replace('|', end);
        check(body, &want);
    }
    check("data: a\rdata: b\r\n\ndata: c\n\r", &[event(None, "a\nb"), event(None, "c")]);
}

#[test]
fn an_event_without_data_is_not_dispatched() {
    check("event: ping\n\nid: 7\nretry: 5\n\n\n\ndata: x\n\n", &[event(None, "x")]);
}

#[test]
fn one_space_after_the_colon_is_not_data() {
    check("data:x\n\ndata: x\n\ndata:  x\n\n", &["x", "x", " x"].map(|data| event(None, data)));
}

#[test]
fn empty_data_is_data() {
    check("data\n\ndata:\n\ndata: \ndata: \n\n", &["", "", "\n"].map(|data| event(None, data)));
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_start_and_nowhere_else() {
    check(
        "\u{feff}data: x\n\n\u{feff}data: y\n\ndata: z\n\n",
        &[event(None, "x"), event(None, "z")],
    );
    check("\u{feff}\u{feff}data: x\n\n", &[]);
    check(b"\xef\xbbdata: x\n\ndata: y\n\n", &[event(None, "y")]);
    check(b"\xef\n\ndata: y\n\n", &[event(None, "y")]);
}

#[test]
fn an_unfinished_event_is_discarded() {
    check("data: x\n\ndata: lost\n", &[event(None, "x")]);
    check("data: x\n\ndata: lo", &[event(None, "x")]);
    let mut decoder = SseDecoder::default();
    assert_eq!(decoder.push(b"data: x\n\ndata: lost\nda").unwrap(), [event(None, "x")]);
    assert_eq!(decoder.finish(), "lostda".len());
}

#[test]
fn a_complete_stream_leaves_nothing_behind() {
    let mut decoder = SseDecoder::default();
    assert_eq!(decoder.push(b"data: x\r\n\r").unwrap(), [event(None, "x")]);
    assert_eq!(decoder.finish(), 0);
}

#[test]
fn the_last_event_field_counts_and_an_empty_one_takes_the_name_back() {
    check("event: a\nevent: b\ndata: x\n\ndata: y\n\n", &[event(Some("b"), "x"), event(None, "y")]);
    check("event: a\ndata: x\nevent:\n\n", &[event(None, "x")]);
    check("event: a\n\ndata: x\n\n", &[event(None, "x")]);
}

#[test]
fn unknown_fields_are_ignored() {
    check("dat: 1\ndatab: 2\nDATA: 3\n data: 4\nevents: 5\ndata: x\n: 6\n\n", &[event(None, "x")]);
}

#[test]
fn unicode_line_separators_do_not_end_a_line() {
    check(
        "data: a\u{2028}b\u{2029}c\u{85}d\u{b}e\n\n",
        &[event(None, "a\u{2028}b\u{2029}c\u{85}d\u{b}e")],
    );
}

#[test]
fn invalid_utf8_becomes_the_replacement_character_wherever_it_is_cut() {
    check(
        b"event: \xff\ndata: a\xf0\x9f\x9a\ndata: \x80b\n\n",
        &[event(Some("\u{fffd}"), "a\u{fffd}\n\u{fffd}b")],
    );
}

#[test]
fn an_event_in_one_chunk_is_borrowed_from_it() {
    let chunk = b"event: a\ndata: x\n\n";
    let mut decoder = SseDecoder::default();
    let mut borrowed = false;
    decoder
        .feed(chunk, |frame| {
            borrowed = chunk.as_ptr_range().contains(&frame.data.as_ptr());
            Ok::<(), SseError>(())
        })
        .unwrap();
    assert!(borrowed);
}

const SMALL: SseLimits = SseLimits { line: 16, event: 24 };

#[track_caller]
fn check_limit(body: &str, want: &[SseEvent], error: Option<SseError>) {
    check_limits(SMALL, body, want, error);
}

#[track_caller]
fn check_limits(limits: SseLimits, body: &str, want: &[SseEvent], error: Option<SseError>) {
    let body = body.as_bytes();
    let want = (want.to_vec(), error);
    assert_eq!(decode_with(limits, [body]), want, "whole");
    assert_eq!(decode_with(limits, body.chunks(1)), want, "byte by byte");
    for at in 0..=body.len() {
        let (first, second) = body.split_at(at);
        assert_eq!(decode_with(limits, [first, second]), want, "cut at {at}");
    }
}

#[test]
fn a_line_may_reach_its_limit_and_not_pass_it() {
    let too_long = Some(SseError::LineTooLong { limit: 16 });
    check_limit("data: 0123456789\n\n", &[event(None, "0123456789")], None);
    check_limit("data: x\n\ndata: 0123456789a\n\n", &[event(None, "x")], too_long);
    check_limit(": a comment is a line too\n\n", &[], too_long);
    check_limit("data: without an end", &[], too_long);
}

#[test]
fn an_event_may_reach_its_limit_and_not_pass_it() {
    let too_large = Some(SseError::EventTooLarge { limit: 24 });
    let line = "data: 0123456789\n";
    check_limit(
        &format!("event: abc\n{line}{line}\n"),
        &[event(Some("abc"), "0123456789\n0123456789")],
        None,
    );
    check_limit(&format!("event: abcd\n{line}{line}\n"), &[], too_large);
    check_limit(&format!("{line}{line}event: abcd\n\n"), &[], too_large);
    check_limit(&format!("{line}{line}{line}\n"), &[], too_large);
    check_limit(&"data\n".repeat(26), &[], too_large);
}

#[test]
fn the_name_of_an_event_counts_towards_its_limit_on_either_side_of_its_data() {
    let limits = SseLimits { line: 100, event: 8 };
    let too_large = Some(SseError::EventTooLarge { limit: 8 });
    for (data, error) in [("01234", None), ("012345", too_large)] {
        let want = [event(Some("abc"), data)];
        let want = if error.is_none() { &want[..] } else { &[] };
        check_limits(limits, &format!("event: abc\ndata: {data}\n\n"), want, error);
        check_limits(limits, &format!("data: {data}\nevent: abc\n\n"), want, error);
    }
}

#[test]
fn fields_that_are_not_kept_never_fill_an_event() {
    let body = format!("{}data: x\n\n", "id: 0123456789\nevent: 012345678\n: 01234\n".repeat(50));
    check_limit(&body, &[event(Some("012345678"), "x")], None);
}

#[test]
fn a_decoder_that_failed_holds_nothing_and_stays_failed() {
    let mut decoder = SseDecoder::with_limits(SMALL);
    let error = SseError::LineTooLong { limit: 16 };
    assert_eq!(decoder.push(b"data: 0123456789abc"), Err(error));
    assert_eq!(decoder.push(b"\n\ndata: x\n\n"), Err(error));
    assert_eq!(decoder.line.capacity(), 0);
}

#[test]
fn a_line_over_the_limit_is_refused_before_it_is_stored() {
    let mut decoder = SseDecoder::with_limits(SMALL);
    assert!(decoder.push(&vec![b'x'; 1 << 20]).is_err());
    assert_eq!(decoder.line.capacity(), 0);
}

#[test]
fn an_error_of_the_receiver_stops_the_chunk() {
    let mut seen = 0;
    let fed = SseDecoder::default().feed(b"data: 1\n\ndata: 2\n\n", |_| {
        seen += 1;
        Err(SseError::EventTooLarge { limit: 7 })
    });
    assert_eq!((fed, seen), (Err(SseError::EventTooLarge { limit: 7 }), 1));
}

/// Bytes that look like a stream often enough to reach every branch.
fn streamlike() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            &b"data: "[..], b"data:", b"data", b"event: ", b"event:", b"id: 1", b": c", b"\xef\xbb\xbf",
            b"\n", b"\r", b"\r\n", b"\n\n", "é🚀".as_bytes(), b"\xff", b"{\"a\":1}",
        ]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_chunking_of_any_bytes_gives_the_same_events(
        body in streamlike(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        limited in any::<bool>(),
    ) {
        let limits = if limited { SMALL } else { SseLimits::default() };
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        ends.push(body.len());
        ends.sort_unstable();
        let mut begin = 0;
        let chunks = ends.into_iter().map(|end| &body[std::mem::replace(&mut begin, end)..end]);
        prop_assert_eq!(decode_with(limits, chunks), decode_with(limits, [&body[..]]));
    }
}
