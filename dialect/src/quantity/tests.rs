use super::*;

fn parsed(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn quantities_are_read_and_written_as_go_does() {
    let rows = include_str!("vectors.tsv").lines();
    for row in rows.filter(|row| !row.starts_with('#')) {
        let mut columns = row.split('\t');
        let mut column = || columns.next().unwrap_or_else(|| panic!("{row}"));
        let (text, canonical, integer) = (column(), column(), column());
        let Ok(quantity) = Quantity::parse(text) else {
            assert_eq!(canonical, "!", "{text}");
            continue;
        };
        assert_eq!(quantity.to_string(), canonical, "{text}");
        if integer != "-" {
            assert_eq!(quantity.to_int(), integer.parse().ok(), "{text}");
        }
    }
}

#[test]
fn quantities_are_canonical() {
    let cases = [
        ("0", "0"),
        ("0.5", "500m"),
        ("1", "1"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.3Ki", "307200m"),
        ("100Mi", "100Mi"),
        ("1000Mi", "1000Mi"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("12e6", "12e6"),
        ("-1.5Gi", "-1536Mi"),
        ("+2", "2"),
        ("0.0000000001", "1n"),
        (".5", "500m"),
        ("5.", "5"),
        (
            "123456789012345678901234567890123456789",
            "123456789012345678901234567890123456789",
        ),
        ("-16Ei", "-9223372036854775807"),
        ("100", "100"),
        ("1500", "1500"),
        ("2000k", "2M"),
        // Go writes `1`, which is another amount.
        ("1000E", "1e21"),
    ];
    for (text, want) in cases {
        assert_eq!(parsed(text).to_string(), want, "{text}");
    }
}

#[test]
fn equal_quantities_are_equal_however_they_are_written() {
    for (left, right) in [
        ("1", "1000m"),
        ("1.5Gi", "1610612736"),
        ("200M", "0.2G"),
        ("1e3", "1k"),
        ("1E3", "1k"),
        ("1E", "1000P"),
        (".5", "500m"),
        ("5.", "5"),
        ("-0", "0"),
        ("1e-3", "1m"),
        ("0.0000000001", "1n"),
        ("-0.0000000001", "-1n"),
        ("16Ei", "9223372036854775807"),
    ] {
        assert_eq!(parsed(left), parsed(right), "{left} and {right}");
    }
    assert!(parsed("50M") < parsed("50Mi"));
}

#[test]
fn what_is_no_quantity_is_refused() {
    for text in ["", "a", "Three", "1,3G", "1.2.3", "1Kib", "1 Gi", "1-1-1"] {
        assert_eq!(Quantity::parse(text), Err(QuantityError::Format), "{text}");
    }
    for text in ["200K", "1e", "1ki", "1ee3", "1e9999999", "--1", "++1"] {
        assert_eq!(Quantity::parse(text), Err(QuantityError::Suffix), "{text}");
    }
}

#[test]
fn integers_are_exact_or_refused() {
    for (text, want) in [
        ("50k", Some(50_000)),
        ("1.5", None),
        ("1500m", None),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", None),
        ("9999999999999999999999999999999999999G", None),
    ] {
        assert_eq!(parsed(text).to_int(), want, "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics_and_canonical_is_stable(text in "[-+]?[0-9]{0,40}[.]?[0-9]{0,20}(|[numkMGTPE]|[KMGTPE]i|e[-+]?[0-9]{1,3})") {
        if let Ok(quantity) = Quantity::parse(&text) {
            let canonical = quantity.to_string();
            let again = Quantity::parse(&canonical).unwrap();
            proptest::prop_assert_eq!(&again, &quantity);
            proptest::prop_assert_eq!(again.to_string(), canonical);
        }
    }
}

/// As Go's `ParseQuantity` reads them.
#[test]
fn no_digits_are_zero() {
    for text in [".", "-", "+", "-.", "Mi", ".e3", "e3", "E"] {
        assert_eq!(parsed(text), parsed("0"), "{text}");
    }
}
