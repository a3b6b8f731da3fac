//! Answers that no server should give: each is an error that says what is wrong, and none is a panic.

use proptest::prelude::*;
use vim25::methods::{Login, PowerOnVMTask, RetrievePropertiesEx, RetrieveServiceContent};
use vim25::refs::{FolderRef, ServiceInstanceRef, VirtualMachineRef};
use vim25::types::VirtualMachineConfigSpec;
use vim25::wire::{Element, Reader, Writer};
use vim25::{Any, Error, Limits, ReadError, Secret, WriteError, read_response, read_response_within, to_envelope};

use crate::answer;

fn error_of(message: impl AsRef<[u8]>) -> ReadError {
    match read_response::<Login>(message.as_ref()) {
        Err(Error::Read(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_cut_off_anywhere_is_never_taken_for_a_whole_one() {
    let whole = answer("Login", "<returnval><key>a &amp; b</key><userName><![CDATA[me]]></userName></returnval>");
    let session = read_response::<Login>(whole.as_bytes()).unwrap();
    assert_eq!(session.key, "a & b");
    for length in 0..whole.len() {
        assert!(read_response::<Login>(&whole.as_bytes()[..length]).is_err(), "{}", &whole[..length]);
    }
    assert!(matches!(error_of(&whole[..whole.len() - 60]), ReadError::Truncated { .. }));
}

#[test]
fn a_page_of_html_is_no_soap_and_what_it_has_is_kept_but_not_said() {
    for (page, has) in [
        ("<!DOCTYPE html><html><body>502 Bad Gateway<br></body></html>", "a DOCTYPE"),
        ("<html><body>502</body></html>", "<html>"),
        ("Service Unavailable", "nothing"),
        ("", "nothing"),
    ] {
        let error = error_of(page);
        assert_eq!(error.to_string(), "the answer is not SOAP: it lacks an envelope");
        assert!(matches!(&error, ReadError::NotSoap { found, .. } if found == has), "{error:?}");
    }
}

#[test]
fn other_soap_is_an_error_too() {
    assert!(matches!(error_of("<Envelope/>"), ReadError::NotSoap { expected: "a body", .. }));
    assert!(matches!(error_of("<Envelope><Body/></Envelope>"), ReadError::NotSoap { .. }));
    assert!(matches!(error_of("<Envelope><Body><a/></Body></Envelope>"), ReadError::NotSoap { .. }));
    let error = error_of(answer("Login", ""));
    assert_eq!(error.to_string(), "the answer to Login has no result");
}

#[test]
fn deep_nesting_is_refused() {
    let nested = |element: &str, times: usize| {
        let open = format!("<{element}>").repeat(times);
        let close = format!("</{element}>").repeat(times);
        format!("<returnval>{open}{close}</returnval>")
    };
    // Skipped elements take no memory, however deep they are; those that are read take stack.
    assert!(read_response::<Login>(answer("Login", &nested("a", 100_000)).as_bytes()).is_ok());
    let cause = "<error><fault xsi:type=\"NotFound\">".to_owned() + &"<faultCause><fault>".repeat(10_000);
    let object = format!("<objects><propSet><val xsi:type=\"TaskInfo\">{cause}");
    let message = answer("RetrievePropertiesEx", &format!("<returnval>{object}"));
    match read_response::<RetrievePropertiesEx>(message.as_bytes()) {
        Err(Error::Read(ReadError::TooMuch { what, limit })) => {
            assert_eq!((what, limit), ("elements nested too deeply", 64));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_deepest_message_allowed_fits_a_small_stack() {
    // The largest type inside itself, as often as the limit allows, in a thread as small as a runtime's may be.
    let open = "<extraConfig><value xsi:type=\"VirtualMachineConfigSpec\">".repeat(30);
    let close = "</value></extraConfig>".repeat(30);
    let message = format!("<c>{open}{close}</c>");
    let deep = std::thread::Builder::new()
        .stack_size(512 << 10)
        .spawn(move || crate::read::<VirtualMachineConfigSpec>(&message).map(|_| ()));
    deep.unwrap().join().unwrap().unwrap();
}

#[test]
fn text_and_memory_are_limited() {
    let limits = Limits { text: 1000, memory: 10_000, ..Limits::default() };
    let long = answer("Login", &format!("<returnval><key>{}</key></returnval>", "x".repeat(2000)));
    let error = read_response_within::<Login>(long.as_bytes(), limits).unwrap_err();
    assert_eq!(error.to_string(), "the answer has too much text in one element, and the limit is 1000");
    let many = answer("RetrievePropertiesEx", &format!("<returnval>{}</returnval>", "<objects/>".repeat(2000)));
    let error = read_response_within::<RetrievePropertiesEx>(many.as_bytes(), limits).unwrap_err();
    assert!(error.to_string().contains("more values than fit"), "{error}");
}

#[test]
fn bad_text_is_an_error_that_keeps_the_element_and_does_not_say_it() {
    let read = |inner: &str| error_of(answer("Login", &format!("<returnval>{inner}</returnval>")));
    let error = |inner: &str| read(inner).to_string();
    assert_eq!(read("<key>&bogus;</key>"), ReadError::UnknownEntity { name: "bogus".to_owned() });
    assert_eq!(error("<key>&bogus;</key>"), "the answer has an entity that XML does not define");
    for (element, value, text, expected) in [
        ("callCount", "many", "many", "long"),
        ("loginTime", "noon", "noon", "dateTime"),
        ("extensionSession", "", "", "boolean"),
        ("key", "#0", "&#0;", "character reference"),
    ] {
        let inner = format!("<{element}>{text}</{element}>");
        let (element, value) = (element.to_owned(), value.to_owned());
        assert_eq!(read(&inner), ReadError::BadValue { element, value, expected });
        assert_eq!(error(&inner), format!("the answer has a value that is no {expected}, where one should be"));
    }
    assert!(error("<key>a & b</key>").contains("not well-formed"));
    assert!(error("<key>a</keys>").contains("not well-formed"));
    let message = answer("Login", "<returnval><key>\u{e9}</key></returnval>");
    let latin: Vec<u8> = message.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    assert!(matches!(error_of(latin), ReadError::NotUtf8 { .. }));
}

#[test]
fn what_xml_cannot_say_is_refused_before_it_is_sent() {
    let mut request = Login { password: Secret::new("a\u{0}b"), ..Default::default() };
    request.this = vim25::refs::SessionManagerRef::new("SessionManager");
    let error = to_envelope(&request).unwrap_err();
    assert_eq!(error.to_string(), "<password> has the character U+0000, which XML does not allow");
    let unset = to_envelope(&PowerOnVMTask::default()).unwrap_err();
    assert_eq!(unset, WriteError::Unset { element: "_this".to_owned() });
    assert_eq!(unset.to_string(), "<_this> is required and was not set");
    let state = vim25::enums::VirtualMachinePowerState::default();
    assert!(state.write("state", &mut vim25::wire::Writer::default()).is_err());
    assert!(to_envelope(&RetrieveServiceContent { this: ServiceInstanceRef::new("\u{1}") }).is_err());
}

#[test]
fn a_type_of_many_prefixes_is_the_same_when_it_was_written_and_read_again() {
    let read = |xml: &[u8]| {
        let mut reader = Reader::new(xml, Limits::default());
        let tag = reader.next_child().unwrap().unwrap();
        let mut any = Any::default();
        any.read(&tag, &mut reader).unwrap();
        any
    };
    let written = |any: &Any| {
        let mut writer = Writer::default();
        any.write("val", &mut writer).unwrap();
        writer.into_bytes()
    };
    let fault = r#"<val xsi:type="LocalizedMethodFault"><fault xsi:type="a:b:c"/><localizedMessage/></val>"#;
    let once = written(&read(fault.as_bytes()));
    assert!(String::from_utf8_lossy(&once).contains(r#"<fault xsi:type="c">"#), "{}", String::from_utf8_lossy(&once));
    assert_eq!(written(&read(&once)), once);
}

#[test]
fn a_secret_is_never_printed() {
    let login = Login { password: Secret::new("hunter2"), ..Default::default() };
    assert!(!format!("{login:?}").contains("hunter2"));
    assert_eq!(login.password.expose(), "hunter2");
    // References print short, so that a log line stays one.
    assert_eq!(format!("{:?}", FolderRef::new("group-v4")), "FolderRef(Folder:group-v4)");
    assert_eq!(VirtualMachineRef::new("vm-1").to_string(), "VirtualMachine vm-1");
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
        _ = read_response::<RetrievePropertiesEx>(&bytes);
    }

    #[test]
    fn no_change_to_a_message_makes_the_reader_panic(
        at in proptest::num::usize::ANY,
        with in "[<>/&;!\\[\\]\"'= a-z:?-]{0,8}",
        remove in 0..40_usize,
    ) {
        let object = r#"<returnval><objects><obj type="VirtualMachine">vm-1</obj><propSet><name>config.hardware.device
            </name><val xsi:type="ArrayOfVirtualDevice"><VirtualDevice xsi:type="VirtualDisk"><key>2000</key>
            </VirtualDevice></val></propSet></objects></returnval>"#;
        let mut bytes = answer("RetrievePropertiesEx", object).into_bytes();
        let at = at % bytes.len();
        let end = (at + remove).min(bytes.len());
        bytes.splice(at..end, with.bytes());
        _ = read_response::<RetrievePropertiesEx>(&bytes);
    }
}
