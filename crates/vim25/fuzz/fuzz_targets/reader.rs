//! Any bytes as an answer: no panic, bounded memory, and what was read and can be written is stable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vim25::methods::{FindAllByUuid, Login, RetrievePropertiesEx, RetrieveServiceContent, WaitForUpdatesEx};
use vim25::wire::{Element, Reader, Writer};
use vim25::{Any, Limits, read_response};

fuzz_target!(|bytes: &[u8]| {
    _ = read_response::<Login>(bytes);
    _ = read_response::<RetrieveServiceContent>(bytes);
    _ = read_response::<FindAllByUuid>(bytes).map_err(|error| error.to_string());
    _ = read_response::<WaitForUpdatesEx>(bytes);
    let Ok(Some(page)) = read_response::<RetrievePropertiesEx>(bytes) else { return };
    for property in page.objects.iter().flat_map(|object| &object.prop_set) {
        let Some(once) = written(&property.val) else { continue };
        let again = written(&read(&once)).expect("what was written and read can be written");
        assert_eq!(String::from_utf8_lossy(&once), String::from_utf8_lossy(&again));
    }
});

fn written(any: &Any) -> Option<Vec<u8>> {
    let mut writer = Writer::default();
    any.write("val", &mut writer).ok()?;
    Some(writer.into_bytes())
}

fn read(bytes: &[u8]) -> Any {
    let mut reader = Reader::new(bytes, Limits::default());
    let tag = reader.next_child().expect("what was written is XML").expect("with one element");
    let mut any = Any::default();
    any.read(&tag, &mut reader).expect("what was written can be read");
    any
}
