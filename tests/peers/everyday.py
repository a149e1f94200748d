#!/usr/bin/env python3
"""Everyday schemas, as pydantic, zod and schemars write them, with values that they take and not.

    everyday.py FOLDER     one file per schema, as MaskBench has them
    everyday.py --list     their names

Those of pydantic are made by the pydantic that is installed, from the models below; without it
they are left out. Those of zod (z.toJSONSchema, zod-to-json-schema) and schemars are written here
in the forms that these libraries give to their types. Where the package jsonschema is installed,
each value is checked by it, but for formats. Nothing is fetched."""
import argparse
import json
import pathlib

UUID = "123e4567-e89b-12d3-a456-426614174000"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


# ---- pydantic ------------------------------------------------------------------------------------

def pydantic_models():
    """Name, type, values that are valid, values that are not."""
    import datetime as dt
    import decimal
    import enum
    import uuid
    from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar, Union

    from pydantic import (AnyUrl, AwareDatetime, BaseModel, ConfigDict, Field, HttpUrl, Json,
                          NonNegativeFloat, PositiveInt, RootModel, SecretStr, conint, conlist,
                          constr)
    from typing_extensions import TypedDict

    class Colour(str, enum.Enum):
        RED = "red"
        BLUE = "blue"

    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 9

    class Person(BaseModel):
        name: str
        age: int = Field(ge=0, le=150, description="in years")
        nick: Optional[str] = None

    class Address(BaseModel):
        street: str
        zip: constr(pattern=r"^\d{5}$")

    class Customer(BaseModel):
        person: Person
        addresses: list[Address] = Field(min_length=1)

    class Cat(BaseModel):
        kind: Literal["cat"]
        lives: int

    class Dog(BaseModel):
        kind: Literal["dog"]
        breed: str

    class Pet(BaseModel):
        pet: Union[Cat, Dog] = Field(discriminator="kind")

    class Undecided(BaseModel):
        value: Union[int, str, list[bool], None]

    class Tree(BaseModel):
        value: int
        children: list["Tree"] = []

    class Linked(BaseModel):
        value: str
        next: Optional["Linked"] = None

    class Times(BaseModel):
        at: dt.datetime
        day: dt.date
        hour: dt.time
        span: dt.timedelta

    class Money(BaseModel):
        amount: decimal.Decimal = Field(max_digits=10, decimal_places=2)
        rate: decimal.Decimal

    class Bounded(BaseModel):
        code: constr(min_length=2, max_length=4)
        count: conint(gt=0, lt=100, multiple_of=5)
        share: float = Field(ge=0, le=1)

    class Maps(BaseModel):
        scores: dict[str, int]
        people: dict[str, Person] = {}
        any: dict[str, Any] = {}

    class Keyed(BaseModel):
        by_code: dict[constr(pattern="^[a-z]{2}$"), int]
        by_level: dict[Literal["low", "high"], float] = {}

    class Tuples(BaseModel):
        pair: tuple[int, str]
        many: tuple[float, ...]
        tags: set[Colour]

    class Ids(BaseModel):
        id: uuid.UUID
        site: HttpUrl
        link: AnyUrl

    class Anything(BaseModel):
        value: Any
        items: list
        mapping: dict

    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")
        a: int
        b: bool = False

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int

    class Aliased(BaseModel):
        first_name: str = Field(alias="firstName", examples=["Ann"])
        class_: str = Field(alias="class", title="A class", deprecated=True)

    class Enums(BaseModel):
        colour: Colour
        level: Level = Level.LOW
        fixed: Literal["a", 1, True, None]

    class Lists(BaseModel):
        triple: conlist(int, min_length=3, max_length=3)
        matrix: list[list[float]]
        some: list[Optional[str]]

    class Positive(BaseModel):
        n: PositiveInt
        x: NonNegativeFloat
        secret: SecretStr
        raw: bytes

    T = TypeVar("T")

    class Page(BaseModel, Generic[T]):
        items: list[T]
        total: int
        next: Optional[str] = None

    class Point(NamedTuple):
        x: int
        y: int

    class Movie(TypedDict, total=False):
        title: str
        year: int

    class Step(BaseModel):
        explanation: str
        output: str

    class Reasoning(BaseModel):
        steps: list[Step]
        final_answer: str

    class Add(BaseModel):
        op: Literal["add"] = "add"
        left: "Expr"
        right: "Expr"

    class Number(BaseModel):
        op: Literal["number"] = "number"
        value: float

    Expr = Annotated[Union[Add, Number], Field(discriminator="op")]
    Add.model_rebuild(_types_namespace={"Expr": Expr, "Add": Add, "Number": Number})

    class Frozen(BaseModel):
        ids: frozenset[int] = Field(max_length=20)
        json_text: Json

    class Event(BaseModel):
        when: AwareDatetime
        who: list[Person] = Field(default_factory=list, max_length=3)

    class Mail(BaseModel):
        to: Annotated[str, Field(json_schema_extra={"format": "email"})]
        subject: str = Field(max_length=78)

    ann = {"name": "Ann", "age": 30}
    return [
        ("person", Person, [ann, {**ann, "nick": None}, {**ann, "nick": "A"}],
         [{"name": "Ann"}, {"name": 1, "age": 30}, {"name": "Ann", "age": 151}]),
        ("nested", Customer, [{"person": ann, "addresses": [{"street": "x", "zip": "12345"}]}],
         [{"person": ann, "addresses": []},
          {"person": ann, "addresses": [{"street": "x", "zip": "1234"}]}]),
        ("discriminated", Pet, [{"pet": {"kind": "cat", "lives": 9}},
                                {"pet": {"kind": "dog", "breed": "pug"}}],
         [{"pet": {"kind": "cow", "lives": 9}}, {"pet": {"kind": "dog", "lives": 9}}]),
        ("union", Undecided, [{"value": 1}, {"value": "x"}, {"value": [True]}, {"value": None}],
         [{}, {"value": 1.5}, {"value": [1]}]),
        ("tree", Tree, [{"value": 1}, {"value": 1, "children": [{"value": 2, "children": []}]}],
         [{"value": 1, "children": [{}]}, {"children": []}]),
        ("linked list", Linked, [{"value": "a", "next": {"value": "b", "next": None}}],
         [{"value": "a", "next": {"next": None}}, {"value": "a", "next": 1}]),
        ("times", Times, [{"at": "2024-02-29T12:00:00Z", "day": "2024-02-29",
                           "hour": "12:30:00.5Z", "span": "P1DT2H"}],
         [{"at": "yesterday", "day": "2024-02-29", "hour": "12:30:00Z", "span": "P1D"},
          {"at": "2024-02-29T12:00:00Z", "day": "2023-02-29", "hour": "12:30:00Z", "span": "P1D"}]),
        ("decimals", Money, [{"amount": 12.5, "rate": "0.25"}, {"amount": "12.50", "rate": 3}],
         [{"amount": [], "rate": 1}, {"amount": None, "rate": 1}]),
        ("bounds", Bounded, [{"code": "ab", "count": 95, "share": 0.5},
                             {"code": "abcd", "count": 5, "share": 1}],
         [{"code": "a", "count": 5, "share": 0}, {"code": "ab", "count": 7, "share": 0},
          {"code": "ab", "count": 100, "share": 0}, {"code": "ab", "count": 5, "share": 1.01}]),
        ("maps", Maps, [{"scores": {}}, {"scores": {"a": 1, "b": 2}, "people": {"x": ann},
                                         "any": {"q": [1, None]}}],
         [{"scores": {"a": "1"}}, {"scores": {}, "people": {"x": 1}}]),
        ("keyed maps", Keyed, [{"by_code": {"de": 1}, "by_level": {"low": 0.5}}],
         [{"by_code": {"de": "1"}}, {"by_code": {"de": 1}, "by_level": {"mid": 1}}]),
        ("tuples", Tuples, [{"pair": [1, "a"], "many": [], "tags": ["red"]},
                            {"pair": [1, "a"], "many": [1.5, 2], "tags": ["blue", "red"]}],
         [{"pair": [1], "many": [], "tags": []}, {"pair": [1, "a", 2], "many": [], "tags": []},
          {"pair": [1, "a"], "many": [], "tags": ["red", "red"]}]),
        ("ids", Ids, [{"id": UUID, "site": "https://example.com/a?b=c", "link": "ftp://x/y"}],
         [{"id": "1", "site": "https://example.com/", "link": "ftp://x"},
          {"id": UUID, "site": "", "link": "ftp://x"}]),
        ("anything", Anything, [{"value": None, "items": [1, "a"], "mapping": {"x": {}}},
                                {"value": {"a": [1]}, "items": [], "mapping": {}}],
         [{"items": [], "mapping": {}}, {"value": 1, "items": {}, "mapping": {}}]),
        ("closed", Closed, [{"a": 1}, {"a": 1, "b": True}], [{"a": 1, "c": 2}, {"b": True}]),
        ("open", Open, [{"a": 1}, {"a": 1, "c": [2]}], [{"c": 2}, {"a": "1"}]),
        ("aliases", Aliased, [{"firstName": "Ann", "class": "b"}],
         [{"first_name": "Ann", "class": "b"}, {"firstName": "Ann"}]),
        ("enums", Enums, [{"colour": "red", "fixed": "a"},
                          {"colour": "blue", "level": 9, "fixed": None}],
         [{"colour": "green", "fixed": "a"}, {"colour": "red", "level": 2, "fixed": 1},
          {"colour": "red", "fixed": "b"}]),
        ("lists", Lists, [{"triple": [1, 2, 3], "matrix": [[1, 2.5], []], "some": ["a", None]}],
         [{"triple": [1, 2], "matrix": [], "some": []},
          {"triple": [1, 2, 3, 4], "matrix": [], "some": []},
          {"triple": [1, 2, 3], "matrix": [1], "some": []}]),
        ("positive", Positive, [{"n": 1, "x": 0, "secret": "s", "raw": "b"}],
         [{"n": 0, "x": 0, "secret": "s", "raw": "b"},
          {"n": 1, "x": -0.5, "secret": "s", "raw": "b"}]),
        ("generic", Page[Person], [{"items": [ann], "total": 1}, {"items": [], "total": 0,
                                                                  "next": "/2"}],
         [{"items": [{}], "total": 1}, {"items": []}]),
        ("named tuple", Point, [[1, 2]], [[1], [1, 2, 3], {"x": 1, "y": 2}]),
        ("typed dict", Movie, [{}, {"title": "A"}, {"title": "A", "year": 1999}],
         [{"year": "1999"}, []]),
        ("reasoning", Reasoning,
         [{"steps": [{"explanation": "a", "output": "b"}], "final_answer": "c"}],
         [{"steps": [{"explanation": "a"}], "final_answer": "c"}, {"steps": []}]),
        ("expression", Expr,
         [{"op": "number", "value": 1.5},
          {"op": "add", "left": {"value": 1}, "right": {"op": "number", "value": 2}}],
         [{"op": "sub", "value": 1}, {"op": "add", "left": {"value": 1}}]),
        ("root list", RootModel[list[Person]], [[], [ann, ann]], [[{}], ann]),
        ("set of integers", Frozen, [{"ids": [1, 2, 3, 4], "json_text": "[1]"}],
         [{"ids": [1, 1], "json_text": "[]"}, {"ids": list(range(21)), "json_text": "1"}]),
        ("event", Event, [{"when": "2024-01-31T23:59:59+01:00", "who": [ann]}],
         [{"when": "2024-01-32T23:59:59+01:00"},
          {"when": "2024-01-31T23:59:59Z", "who": [ann] * 4}]),
        ("mail", Mail, [{"to": "ann@example.com", "subject": "Hello"}],
         [{"to": "ann", "subject": ""}, {"to": "ann@example.com", "subject": "x" * 79}]),
    ]


def pydantic_cases():
    try:
        import pydantic
    except ImportError:
        return
    for name, kind, valid, invalid in pydantic_models():
        yield f"pydantic {name}", pydantic.TypeAdapter(kind).json_schema(), valid, invalid


# ---- zod -----------------------------------------------------------------------------------------

SAFE = {"minimum": -9007199254740991, "maximum": 9007199254740991}


def zod_object(properties, optional=(), **more):
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties,
            **({"required": required} if required else {}), "additionalProperties": False, **more}


def zod_cases():
    """As z.toJSONSchema(...) of zod 4 writes its types; the last five as zod-to-json-schema."""
    string, number, boolean = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
    email = {"type": "string", "format": "email",
             "pattern": r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@"
                        r"([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"}
    uuid = {"type": "string", "format": "uuid",
            "pattern": r"^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]"
                       r"{3}-[0-9a-fA-F]{12}|00000000-0000-0000-0000-000000000000|ffffffff-ffff-"
                       r"ffff-ffff-ffffffffffff)$"}
    stamp = {"type": "string", "format": "date-time",
             "pattern": r"^(?:(?:\d\d[2468][048]|\d\d[13579][26]|\d\d0[48]|[02468][048]00|"
                        r"[13579][26]00)-02-29|\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
                        r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|(?:02)-(?:0[1-9]|1\d|2[0-8])))T(?:"
                        r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:Z))$"}
    cases = [
        ("object", zod_object({"name": string, "age": {"type": "integer", **SAFE}}),
         [{"name": "a", "age": 3}], [{"name": "a"}, {"name": "a", "age": 3, "b": 1},
                                     {"name": "a", "age": 2.5}]),
        ("optional", zod_object({"a": string, "b": number}, optional=["b"]),
         [{"a": "x"}, {"a": "x", "b": 1.5}], [{"b": 1}, {"a": None}]),
        ("nullable", zod_object({"a": {"anyOf": [string, {"type": "null"}]}}),
         [{"a": None}, {"a": "x"}], [{}, {"a": 1}]),
        ("enum", {"type": "string", "enum": ["Salmon", "Tuna"]}, ["Salmon"], ["Cod", 1]),
        ("literals", {"type": "string", "const": "tuna"}, ["tuna"], ["cod", None]),
        ("email", email, ["ann.b@example.com"], ["ann@", ".ann@example.com", "a..b@example.com"]),
        ("uuid", uuid, [UUID], ["123e4567-e89b-92d3-a456-426614174000", "x"]),
        ("date-time", stamp, ["2024-02-29T10:00:00Z", "2023-01-31T10:00:00.123Z"],
         ["2023-02-29T10:00:00Z", "2023-01-31"]),
        ("numbers", zod_object({"a": {"type": "number", "exclusiveMinimum": 0},
                                "b": {"type": "integer", "minimum": -5, "maximum": 5},
                                "c": {"type": "number", "multipleOf": 0.25}}),
         [{"a": 0.5, "b": -5, "c": 1.75}], [{"a": 0, "b": 0, "c": 0}, {"a": 1, "b": 6, "c": 0},
                                            {"a": 1, "b": 0, "c": 0.3}]),
        ("tuple", {"type": "array", "prefixItems": [string, number], "items": boolean},
         [["a", 1], ["a", 1, True, False]], [["a", "b"], ["a", 1, 2]]),
        ("record", {"type": "object", "propertyNames": {"type": "string"},
                    "additionalProperties": number},
         [{}, {"a": 1}], [{"a": "1"}, []]),
        ("record of enum", {"type": "object",
                            "propertyNames": {"type": "string", "enum": ["id", "name"]},
                            "additionalProperties": string, "required": ["id", "name"]},
         [{"id": "1", "name": "x"}], [{"id": "1"}, {"id": "1", "name": "x", "more": "y"}]),
        ("discriminated union",
         {"oneOf": [zod_object({"status": {"type": "string", "const": "ok"}, "data": string}),
                    zod_object({"status": {"type": "string", "const": "failed"},
                                "error": {"anyOf": [string, number]}})]},
         [{"status": "ok", "data": "x"}, {"status": "failed", "error": 5}],
         [{"status": "ok", "error": "x"}, {"status": "other", "data": "x"}]),
        ("intersection", {"allOf": [{"type": "object", "properties": {"a": string},
                                     "required": ["a"]},
                                    {"type": "object", "properties": {"b": number},
                                     "required": ["b"]}]},
         [{"a": "x", "b": 1}], [{"a": "x"}, {"a": "x", "b": "1"}]),
        ("recursive getter", {**zod_object({"name": string, "subcategories":
                                            {"type": "array", "items": {"$ref": "#"}}}),
                              "$schema": DRAFT_2020},
         [{"name": "a", "subcategories": [{"name": "b", "subcategories": []}]}],
         [{"name": "a"}, {"name": "a", "subcategories": [1]}]),
        ("default and meta", zod_object({"on": {"type": "boolean", "default": True,
                                                "title": "On", "description": "whether"}}),
         [{"on": False}], [{}, {"on": 1}]),
        ("template literal", {"type": "string", "pattern":
                              r"^-?\d+(?:\.\d+)?(px|em|rem|%)$"},
         ["12px", "-1.5rem"], ["12", "px"]),
        ("unknown and any", zod_object({"a": {}, "b": {}}, optional=["b"]),
         [{"a": [1]}, {"a": None, "b": {}}], [{}, {"c": 1}]),
        ("strings", zod_object({"a": {"type": "string", "minLength": 1, "maxLength": 3},
                                "b": {"type": "string", "pattern": "^foo.*"},
                                "c": {"type": "string", "format": "uri"}}),
         [{"a": "abc", "b": "foobar", "c": "https://x.y/z"}],
         [{"a": "", "b": "foo", "c": "https://x"}, {"a": "a", "b": "bar", "c": "https://x"}]),
        ("named $ref", {"$schema": DRAFT_2020, "type": "object",
                        "properties": {"node": {"$ref": "#/$defs/__schema0"}},
                        "required": ["node"], "additionalProperties": False,
                        "$defs": {"__schema0": zod_object(
                            {"next": {"anyOf": [{"$ref": "#/$defs/__schema0"},
                                                {"type": "null"}]}})}},
         [{"node": {"next": {"next": None}}}], [{"node": {}}, {"node": {"next": 1}}]),
    ]
    old = [
        ("old reference", {"$schema": DRAFT_7, "$ref": "#/definitions/User", "definitions": {
            "User": zod_object({"name": string, "friends":
                                {"type": "array", "items": {"$ref": "#/definitions/User"}}})}},
         [{"name": "a", "friends": [{"name": "b", "friends": []}]}], [{"name": "a"}, []]),
        ("old path", {"$schema": DRAFT_7, **zod_object(
            {"a": zod_object({"x": number}), "b": {"$ref": "#/properties/a"}})},
         [{"a": {"x": 1}, "b": {"x": 2}}], [{"a": {"x": 1}, "b": {}}]),
        ("old nullable", {"$schema": DRAFT_7, **zod_object(
            {"a": {"type": ["string", "null"]}, "b": {"type": "integer", "exclusiveMinimum": 0}})},
         [{"a": None, "b": 1}], [{"a": 1, "b": 1}, {"a": None, "b": 0}]),
        ("old tuple", {"$schema": DRAFT_7, "type": "array", "minItems": 2, "maxItems": 2,
                       "items": [string, number]}, [["a", 1]], [["a"], ["a", 1, 2]]),
        ("old set", {"$schema": DRAFT_7, "type": "array", "uniqueItems": True, "items": string},
         [[], ["a", "b", "c"], [f"item {i}" for i in range(12)]], [["a", "a"], [1]]),
    ]
    for name, schema, valid, invalid in cases + old:
        yield f"zod {name}", schema, valid, invalid


# ---- schemars ------------------------------------------------------------------------------------

def schemars_object(properties, optional=(), **more):
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties,
            **({"required": required} if required else {}), **more}


def schemars_cases():
    """As schema_for! of schemars 1 writes Rust's types."""
    string, boolean = {"type": "string"}, {"type": "boolean"}
    u8 = {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255}
    i64, double = {"type": "integer", "format": "int64"}, {"type": "number", "format": "double"}
    cases = [
        ("struct", schemars_object({"my_int": {"type": "integer", "format": "int32"},
                                    "my_bool": boolean}),
         [{"my_int": -3, "my_bool": True}], [{"my_int": 1.5, "my_bool": True}, {"my_int": 1}]),
        ("option", schemars_object({"a": {"type": ["string", "null"]}}, optional=["a"]),
         [{}, {"a": None}, {"a": "x"}], [{"a": 1}, []]),
        ("option of struct", schemars_object(
            {"p": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]}}, optional=["p"],
            **{"$defs": {"Point": schemars_object({"x": double, "y": double})}}),
         [{"p": {"x": 1, "y": -0.5}}, {"p": None}], [{"p": {"x": 1}}, {"p": 1}]),
        ("unit variants", {"type": "string", "enum": ["North", "South"]}, ["South"], ["West"]),
        ("documented variants", {"oneOf": [
            {"description": "up", "type": "string", "const": "Up"},
            {"description": "down", "type": "string", "const": "Down"}]}, ["Up"], ["Left", 1]),
        ("external tag", {"oneOf": [
            {"type": "string", "enum": ["Unit"]},
            schemars_object({"Tuple": {"type": "array", "prefixItems": [string, u8],
                                       "minItems": 2, "maxItems": 2}}, additionalProperties=False),
            schemars_object({"Struct": schemars_object({"floats": {"type": "array", "items": {
                "type": "number", "format": "float"}}})}, additionalProperties=False)]},
         ["Unit", {"Tuple": ["a", 255]}, {"Struct": {"floats": [1.5]}}],
         ["Tuple", {"Tuple": ["a", 256]}, {"Unit": None}, {"Struct": {}}]),
        ("internal tag", {"oneOf": [
            schemars_object({"type": {"type": "string", "const": "circle"}, "r": double}),
            schemars_object({"type": {"type": "string", "const": "square"}, "side": double})]},
         [{"type": "circle", "r": 1}, {"type": "square", "side": 2.5}],
         [{"type": "circle", "side": 1}, {"type": "other", "r": 1}]),
        ("adjacent tag", {"oneOf": [
            schemars_object({"t": {"type": "string", "const": "A"}, "c": string}),
            schemars_object({"t": {"type": "string", "const": "B"}})]},
         [{"t": "A", "c": "x"}, {"t": "B"}], [{"t": "A"}, {"t": "C"}]),
        ("untagged", {"anyOf": [string, i64, {"type": "array", "items": string}]},
         ["a", -5, ["a"]], [1.5, [1], None]),
        ("newtype", {"type": "integer", "format": "uint16", "minimum": 0, "maximum": 65535},
         [0, 65535], [-1, 65536]),
        ("uint64", {"type": "integer", "format": "uint64", "minimum": 0},
         [0, 18446744073709551615, 12345678901234567890], [-1, 0.5]),
        ("wide bounds", {"type": "integer", "format": "int64",
                         "minimum": -9223372036854775808, "maximum": 9223372036854775807},
         [9223372036854775807, -9223372036854775808], [9223372036854775808, 1.5]),
        ("map", {"type": "object", "additionalProperties": u8}, [{}, {"a": 1}],
         [{"a": -1}, {"a": "1"}]),
        ("map of numbers", {"type": "object", "patternProperties": {r"^-?\d+$": boolean},
                            "additionalProperties": False},
         [{"-12": True}], [{"x": True}, {"1": 1}]),
        ("set", {"type": "array", "items": string, "uniqueItems": True},
         [[], ["a", "b"]], [["a", "a"], [1]]),
        ("fixed array", {"type": "array", "items": u8, "minItems": 4, "maxItems": 4},
         [[127, 0, 0, 1]], [[1, 2, 3], [1, 2, 3, 256]]),
        ("flattened", {"type": "object", "properties": {"a": string, "b": boolean},
                       "required": ["a", "b"], "unevaluatedProperties": False},
         [{"a": "x", "b": True}], [{"a": "x", "b": True, "c": 1}, {"a": "x"}]),
        ("flattened enum", {**schemars_object({"id": i64}), "oneOf": [
            schemars_object({"Ok": string}), schemars_object({"Err": string})],
            "unevaluatedProperties": False},
         [{"id": 1, "Ok": "x"}, {"id": 1, "Err": "x"}], [{"id": 1}, {"id": 1, "Other": "x"}]),
        ("chrono and uuid", schemars_object({"at": {"type": "string", "format": "date-time"},
                                             "id": {"type": "string", "format": "uuid"},
                                             "for": {"type": "string", "format": "partial-date-time"}}),
         [{"at": "2024-02-29T00:00:00Z", "id": UUID, "for": "x"}],
         [{"at": "x", "id": UUID, "for": "x"}, {"at": "2024-02-29T00:00:00Z", "id": "x",
                                                 "for": "x"}]),
        ("validated", schemars_object({"n": {"type": "number", "format": "float", "minimum": 1,
                                             "maximum": 10},
                                       "s": {"type": "string", "minLength": 1, "maxLength": 100},
                                       "m": {"type": "string", "format": "email"}}),
         [{"n": 1, "s": "x", "m": "a@b.c"}], [{"n": 0.5, "s": "x", "m": "a@b.c"},
                                              {"n": 1, "s": "", "m": "a@b.c"}]),
        ("char and duration", schemars_object(
            {"c": {"type": "string", "minLength": 1, "maxLength": 1},
             "d": schemars_object({"secs": {"type": "integer", "format": "uint64", "minimum": 0},
                                   "nanos": {"type": "integer", "format": "uint32",
                                             "minimum": 0, "maximum": 4294967295}})}),
         [{"c": "é", "d": {"secs": 1, "nanos": 5}}], [{"c": "ab", "d": {"secs": 1, "nanos": 5}},
                                                      {"c": "a", "d": {"secs": -1, "nanos": 5}}]),
        ("renamed, denied", schemars_object({"camelCase": string, "x-y": boolean},
                                            additionalProperties=False, title="Renamed"),
         [{"camelCase": "a", "x-y": True}], [{"camel_case": "a", "x-y": True},
                                             {"camelCase": "a", "x-y": True, "z": 1}]),
        ("any and unit", schemars_object({"v": True, "u": {"type": "null"}}),
         [{"v": {"a": 1}, "u": None}], [{"u": None}, {"v": 1, "u": 0}]),
        ("recursive box", {"$ref": "#/$defs/Node", "$defs": {"Node": schemars_object(
            {"value": i64, "left": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
            optional=["left"])}},
         [{"value": 1, "left": {"value": 2, "left": None}}], [{"left": None}, {"value": "1"}]),
    ]
    for name, schema, valid, invalid in cases:
        yield f"schemars {name}", {"$schema": DRAFT_2020, **schema}, valid, invalid


# ---- all -----------------------------------------------------------------------------------------

def read_cases():
    """Name, schema, [(value, whether it is valid)]."""
    for source in (pydantic_cases, zod_cases, schemars_cases):
        for name, schema, valid, invalid in source():
            yield name, schema, [(v, True) for v in valid] + [(v, False) for v in invalid]


def check_cases(cases):
    """Each verdict that says otherwise than jsonschema, which knows no formats here."""
    try:
        import jsonschema
    except ImportError:
        return
    for name, schema, tests in cases:
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        text = json.dumps(schema)
        for value, is_valid in tests:
            if kind(schema).is_valid(value) != is_valid and not (not is_valid and
                                                                 '"format"' in text):
                print(f"{name}: jsonschema says otherwise of {json.dumps(value)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--list", action="store_true", help="print the names only")
    args = parser.parse_args()
    cases = list(read_cases())
    check_cases(cases)
    for name, schema, tests in cases:
        if args.list or args.folder is None:
            print(name)
            continue
        rows = [{"data": value, "valid": is_valid} for value, is_valid in tests]
        path = pathlib.Path(args.folder) / (name.replace(" ", "-") + ".json")
        path.write_text(json.dumps({"schema": schema, "tests": rows}, indent=1))


if __name__ == "__main__":
    main()
