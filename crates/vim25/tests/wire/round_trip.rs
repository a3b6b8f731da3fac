//! What is written is read back, and what is read is written back.

use proptest::prelude::*;
use vim25::types::{
    AnyTaskReason, AnyVirtualDevice, OptionValue, TaskReasonUser, VirtualDevice, VirtualDisk, VirtualE1000,
    VirtualMachineConfigSpec, VirtualVmxnet3,
};
use vim25::wire::Element;
use vim25::{Any, Binary, ManagedObjectReference, Timestamp, enums::VirtualMachinePowerState};

use crate::random::{Random, content};
use crate::schema::Schema;
use crate::{read, written};

/// The schema, parsed once for all cases.
fn schema() -> &'static Schema {
    static SCHEMA: std::sync::OnceLock<Schema> = std::sync::OnceLock::new();
    SCHEMA.get_or_init(Schema::load)
}

#[test]
fn every_generated_type_writes_back_what_it_read_element_by_element() {
    for object in schema().objects.keys() {
        for seed in 0..10 {
            let inner = content(schema(), object, &mut Random::new(seed), 0);
            let xml = format!(r#"<value xsi:type="{object}">{inner}</value>"#);
            let any: Any = read(&xml).unwrap_or_else(|error| panic!("{error} in {xml}"));
            assert_eq!(any.type_name(), object);
            assert_eq!(written(&any), xml);
        }
    }
}

/// Text as XML can hold it.
fn text() -> impl Strategy<Value = String> {
    let legal = |c: &char| *c >= ' ' && !matches!(*c, '\u{FFFE}' | '\u{FFFF}') || matches!(*c, '\t' | '\n' | '\r');
    let chars = proptest::char::any().prop_filter("XML forbids it", legal);
    proptest::collection::vec(prop_oneof![chars, Just('<'), Just('&'), Just('\r'), Just(' ')], 0..12)
        .prop_map(String::from_iter)
}

fn reference() -> impl Strategy<Value = ManagedObjectReference> {
    ("[A-Z][a-z]{0,30}", "[a-z]{1,3}-[0-9]{1,30}").prop_map(|(ty, value)| ManagedObjectReference::new(ty, value))
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_i64, 0..1_000_000_000_i32)
        .prop_map(|(seconds, nanoseconds)| Timestamp::new(seconds, nanoseconds).expect("within range"))
}

fn any() -> impl Strategy<Value = Any> {
    let leaf = prop_oneof![
        Just(Any::Nil),
        proptest::bool::ANY.prop_map(Any::from),
        proptest::num::i8::ANY.prop_map(Any::from),
        proptest::num::i16::ANY.prop_map(Any::from),
        proptest::num::i32::ANY.prop_map(Any::from),
        proptest::num::i64::ANY.prop_map(Any::from),
        proptest::num::f32::NORMAL.prop_map(Any::from),
        proptest::num::f64::NORMAL.prop_map(Any::from),
        text().prop_map(Any::from),
        timestamp().prop_map(Any::from),
        proptest::collection::vec(proptest::num::u8::ANY, 0..20).prop_map(|bytes| Any::from(Binary(bytes))),
        reference().prop_map(Any::from),
        Just(Any::from(VirtualMachinePowerState::PoweredOn)),
        proptest::collection::vec(text(), 0..4).prop_map(|list| Any::object(vim25::any::ArrayOf(list))),
        device().prop_map(|device| match device {
            AnyVirtualDevice::VirtualDisk(disk) => Any::object(*disk),
            other => Any::object(vim25::any::ArrayOf(vec![other])),
        }),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        let option = (text(), proptest::option::of(inner.clone()));
        let option = option.prop_map(|(key, value)| OptionValue { key, value: value.filter(|any| *any != Any::Nil) });
        prop_oneof![
            option.prop_map(Any::object),
            proptest::collection::vec(inner, 0..3)
                .prop_map(|items| items.into_iter().filter(|any| *any != Any::Nil).collect::<Vec<_>>())
                .prop_map(|items| Any::object(vim25::any::ArrayOf(items))),
        ]
    })
}

fn device() -> impl Strategy<Value = AnyVirtualDevice> {
    let base = (proptest::num::i32::ANY, proptest::option::of(proptest::num::i32::ANY));
    let base = base.prop_map(|(key, unit_number)| VirtualDevice { key, unit_number, ..Default::default() });
    (base, text(), proptest::num::i64::ANY, 0..5_u8).prop_map(|(base, text, number, which)| match which {
        0 => VirtualDisk { base, capacity_in_kb: number, ..Default::default() }.into(),
        1 => {
            let mut card = VirtualVmxnet3 { uptv2_enabled: Some(number > 0), ..Default::default() };
            card.base.base.base = base;
            card.mac_address = Some(text);
            card.into()
        }
        2 => {
            let mut card = VirtualE1000::default();
            card.base.base = base;
            card.into()
        }
        3 => base.into(),
        _ => AnyVirtualDevice::Other { type_name: "VirtualTimeMachine".into(), base: Box::new(base) },
    })
}

fn comes_back<T: Element + PartialEq + std::fmt::Debug>(value: &T) {
    let xml = written(value);
    assert_eq!(&read::<T>(&xml).unwrap_or_else(|error| panic!("{error} in {xml}")), value, "{xml}");
}

proptest! {
    #[test]
    fn text_comes_back(text in text()) {
        comes_back(&text);
    }

    #[test]
    fn a_value_of_any_type_comes_back(any in any()) {
        comes_back(&any);
    }

    #[test]
    fn a_device_comes_back_as_the_subtype_it_was(device in device()) {
        comes_back(&device);
    }

    #[test]
    fn a_spec_comes_back(
        name in proptest::option::of(text()),
        memory_mb in proptest::option::of(proptest::num::i64::ANY),
        options in proptest::collection::vec((text(), any()), 0..4),
        created in proptest::option::of(timestamp()),
    ) {
        let option = |(key, value)| OptionValue { key, value: Some(value).filter(|any| *any != Any::Nil) };
        comes_back(&VirtualMachineConfigSpec {
            name,
            memory_mb,
            create_date: created,
            extra_config: options.into_iter().map(option).collect(),
            ..Default::default()
        });
    }

    #[test]
    fn a_random_document_of_a_random_type_is_written_back(seed in proptest::num::u64::ANY) {
        let mut random = Random::new(seed);
        let types: Vec<&String> = schema().objects.keys().collect();
        let object = *random.pick(&types);
        let xml = format!(r#"<value xsi:type="{object}">{}</value>"#, content(schema(), object, &mut random, 0));
        let any: Any = read(&xml).unwrap_or_else(|error| panic!("{error} in {xml}"));
        prop_assert_eq!(written(&any), xml);
    }
}

#[test]
fn a_task_reason_comes_back() {
    comes_back(&AnyTaskReason::from(TaskReasonUser { user_name: "CORP\\drover".to_owned(), ..Default::default() }));
}
