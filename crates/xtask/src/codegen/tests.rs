//! The generator on a small API of its own.

use super::emit;
use super::pypi::Source;
use super::select::Selection;
use super::typeinfo::TypeInfo;
use super::wanted::Wanted;

const TYPE_INFO: &str = r#"
from .VmomiSupport import CreateDataType
newestVersions.Add("vim.version.v9_1_1_0")
CreateDataType("vmodl.LocalizableMessage", "LocalizableMessage", "vmodl.DynamicData", "v", [("key", "string", "v", 0)])
CreateDataType("vim.Animal", "Animal", "vmodl.DynamicData", "v", [("legCount", "int", "v", 0), ("next", "vim.Tail", "v", F_OPTIONAL)])
CreateDataType("vim.Dog", "Dog", "vim.Animal", "v", [("color", "vim.Color", "v", F_OPTIONAL), ("alias", "string[]", "v", F_OPTIONAL)])
CreateDataType("vim.Tail", "Tail", "vmodl.DynamicData", "v", [("tip", "vim.Tail", "v", F_OPTIONAL), ("owner", "vim.Zoo", "v", 0)])
CreateEnumType("vim.Color", "Color", "v", ["darkBrown", "other"])
CreateDataType("vim.Bitten", "Bitten", "vmodl.RuntimeFault", "v", None)
CreateDataType("vim.Scratched", "Scratched", "vim.Bitten", "v", None)
CreateManagedType("vim.Zoo", "Zoo", "vmodl.ManagedObject", "v", [("star", "vim.Animal", "v", 0, None)], [("feed", "Feed_Task", "v", (("who", "vim.Animal", "v", 0, "Zoo.Feed"),), (F_OPTIONAL, "string", "string"), None, ["vim.Bitten", ])])
"#;

const WANTED: &str = r#"
[source]
package = "zoo"
version = "1"
[methods]
Zoo = ["Feed_Task"]
[properties]
Zoo = ["star.legCount"]
[types]
subtypes = ["Dog"]
faults = []
dropped = []
"#;

/// All generated text, or the error.
fn generate(type_info: &str, wanted: &str) -> Result<String, String> {
    let source = Source { name: "zoo.py".to_owned(), text: type_info.to_owned() };
    let wanted: Wanted = toml::from_str(wanted).map_err(|error| error.to_string())?;
    let info = TypeInfo::parse(&[source]).map_err(|error| error.to_string())?;
    let selection = Selection::new(&info, &wanted).map_err(|error| error.to_string())?;
    let files = emit::files(&info, &wanted, &selection).map_err(|error| error.to_string())?;
    Ok(files.into_iter().map(|file| file.text).collect())
}

fn has(text: &str, part: &str) {
    assert!(text.contains(part), "no {part} in\n{text}");
}

#[test]
fn what_is_wanted_is_generated_with_what_it_reaches() {
    let text = generate(TYPE_INFO, WANTED).unwrap();
    has(&text, "pub struct Dog {\npub base: Animal,\npub color: Option<Color>,\npub alias: Vec<String>,\n}");
    has(&text, "pub enum AnyAnimal {\nAnimal(Box<Animal>),\nDog(Box<Dog>),");
    has(&text, "pub struct FeedTask {\npub this: ZooRef,\npub who: AnyAnimal,\n}");
    has(&text, r#"method!(FeedTask, "Feed_Task", Option<String>, None, [("who", "Zoo.Feed"), ], {"#);
    has(&text, r#"pub const STAR_LEG_COUNT: Property<ZooRef, i32> = Property::new("star.legCount");"#);
    has(&text, "DarkBrown,\nOtherValue,\n/// A value this crate does not know.\nOther(String),");
    has(&text, "pub const API_VERSION: &str = \"9.1.1.0\";");
    // A type that holds itself is boxed.
    has(&text, "pub tip: Option<Box<Tail>>,");
    // A fault the method declares has a struct; one that nobody wants still has its place in the ancestry.
    has(&text, "pub struct Bitten {\npub base: RuntimeFault,");
    has(&text, r#"("Scratched", "Bitten"),"#);
    assert!(!text.contains("pub struct Scratched"));
}

#[test]
fn the_schema_has_the_order_of_the_type_info() {
    let text = generate(TYPE_INFO, WANTED).unwrap();
    has(&text, "object Dog Animal\n  color enum:Color ?\n  alias xsd:String *\n");
    has(&text, "method Feed_Task Zoo xsd:String\n  _this ref:Zoo !\n  who object:Animal !\n");
}

#[test]
fn the_same_input_gives_the_same_text() {
    assert_eq!(generate(TYPE_INFO, WANTED), generate(TYPE_INFO, WANTED));
}

#[test]
fn what_the_api_does_not_have_is_named() {
    for (from, to, said) in [
        ("Feed_Task", "Free_Task", "wanted.toml: the type info has no method Zoo.Free_Task"),
        ("star.legCount", "star.wings", "wanted.toml: the type info has no property Zoo.star.wings"),
        ("\"Dog\"", "\"Cat\"", "wanted.toml: the type info has no type Cat"),
        ("faults = []", "faults = [\"Eaten\"]", "wanted.toml: the type info has no type Eaten"),
        (
            "dropped = []",
            "dropped = [\"Animal.legCount\"]",
            "wanted.toml: the type info has no optional field to drop Animal.legCount",
        ),
    ] {
        assert_eq!(generate(TYPE_INFO, &WANTED.replace(from, to)).unwrap_err(), said);
    }
}

#[test]
fn a_dropped_field_is_neither_generated_nor_followed() {
    let wanted = WANTED.replace("dropped = []", "dropped = [\"Animal.next\"]");
    let text = generate(TYPE_INFO, &wanted).unwrap();
    assert!(!text.contains("pub struct Tail"));
    has(&text, "/// Without `next`: skipped when read, never written.");
    has(&text, "  next dropped:Tail -\n");
}

#[test]
fn type_info_that_can_not_be_read_is_an_error_with_its_line() {
    let said = |line: &str| generate(&format!("{TYPE_INFO}{line}\n"), WANTED).unwrap_err();
    assert_eq!(
        said(r#"CreateEnumType("vim.X", "X", "v", [open("/etc/passwd")])"#),
        "zoo.py:12: the type info can't be read: column 40: expected ',' or the closing bracket"
    );
    assert_eq!(
        said("CreateNovelty(1)"),
        "zoo.py:12: the type info can't be read: CreateNovelty is called in a way this generator does not know"
    );
    assert_eq!(
        said(r#"CreateDataType("vim.X", "X", None, "v", [])"#),
        "zoo.py:12: the type info can't be read: expected a string, found None"
    );
}
