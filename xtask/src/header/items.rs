//! What of a source file belongs into the header.

use crate::Result;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, FieldValue, Ident, Item, Lit, LitInt, LitStr, Meta, Token, Type, Visibility, braced,
    token,
};

/// One file.
pub(super) struct Section {
    pub(super) docs: Vec<String>,
    pub(super) items: Vec<Entry>,
}

/// One item with its comment.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) docs: Vec<String>,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Number { prefix: &'static str, expr: Expr },
    Text { prefix: &'static str, value: String },
    Enum(Vec<Row>),
    Struct(Vec<Field>),
    Alias(Type),
}

/// One value of an enum.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) docs: Vec<String>,
    pub(super) code: String,
}

pub(super) struct Field {
    pub(super) name: String,
    pub(super) docs: Vec<String>,
    pub(super) ty: Type,
}

/// Reads a file. Constants are taken when they are numbers or texts, structs and enums when they have a `repr`.
pub(super) fn read(text: &str, prefix: &'static str) -> Result<Section> {
    let file = syn::parse_file(text)?;
    let mut items = Vec::new();
    for item in &file.items {
        let entry = |name: &Ident, attrs: &[Attribute], kind| Entry {
            name: name.to_string(),
            docs: docs(attrs),
            kind,
        };
        match item {
            Item::Const(item) if public(&item.vis) => match (&*item.ty, &*item.expr) {
                (Type::Reference(_), Expr::Lit(lit)) => {
                    if let Lit::Str(text) = &lit.lit {
                        let value = text.value();
                        items.push(entry(&item.ident, &item.attrs, Kind::Text { prefix, value }));
                    }
                }
                (Type::Path(ty), expr) if ty.path.is_ident("u32") || is_count(ty) => {
                    let expr = expr.clone();
                    items.push(entry(&item.ident, &item.attrs, Kind::Number { prefix, expr }));
                }
                _ => {}
            },
            Item::Enum(item) if repr(&item.attrs) => {
                let row = |variant: &syn::Variant| {
                    let (_, code) = variant.discriminant.as_ref().ok_or("a value has no code")?;
                    Ok(Row {
                        name: variant.ident.to_string(),
                        docs: docs(&variant.attrs),
                        code: tokens(code)?,
                    })
                };
                let rows = item.variants.iter().map(row).collect::<Result<_>>()?;
                items.push(entry(&item.ident, &item.attrs, Kind::Enum(rows)));
            }
            // Without a `repr` the codes stand elsewhere; the comments are here.
            Item::Enum(item) if public(&item.vis) => {
                let row = |variant: &syn::Variant| Row {
                    name: variant.ident.to_string(),
                    docs: docs(&variant.attrs),
                    code: String::new(),
                };
                let rows = item.variants.iter().map(row).collect();
                items.push(entry(&item.ident, &item.attrs, Kind::Enum(rows)));
            }
            Item::Struct(item) if repr(&item.attrs) && item.generics.params.is_empty() => {
                let field = |field: &syn::Field| {
                    let name = field.ident.as_ref().ok_or("a struct has unnamed fields")?;
                    Ok(Field {
                        name: name.to_string(),
                        docs: docs(&field.attrs),
                        ty: field.ty.clone(),
                    })
                };
                let fields = item.fields.iter().map(field).collect::<Result<_>>()?;
                items.push(entry(&item.ident, &item.attrs, Kind::Struct(fields)));
            }
            Item::Type(item) if public(&item.vis) && item.generics.params.is_empty() => {
                let ty = (*item.ty).clone();
                items.push(entry(&item.ident, &item.attrs, Kind::Alias(ty)));
            }
            Item::Macro(item) if item.ident.is_none() => items.extend(rows_of(item)?),
            _ => {}
        }
    }
    Ok(Section {
        docs: docs(&file.attrs),
        items,
    })
}

/// The enums that a `macro_rules` invocation makes.
fn rows_of(item: &syn::ItemMacro) -> Result<Vec<Entry>> {
    let tokens = item.mac.tokens.clone();
    let name = item.mac.path.get_ident().map(ToString::to_string);
    let single = |name: &str, doc: &str| -> Result<Vec<Entry>> {
        let rows = Punctuated::<MacroRow, Token![;]>::parse_terminated.parse2(tokens.clone())?;
        Ok(vec![Entry {
            name: name.into(),
            docs: vec![doc.into()],
            kind: Kind::Enum(rows.into_iter().map(MacroRow::plain).collect()),
        }])
    };
    match name.as_deref() {
        Some("statuses") => single(
            "Status",
            "What went wrong, as a class; the text of the error says the rest.",
        ),
        Some("dtypes") => single("DType", "The type of one element."),
        Some("table_ids") => single("TableId", "Names a table. All tables are at version 1."),
        Some("codes") => Ok(Groups::parse
            .parse2(tokens)?
            .0
            .into_iter()
            .map(|g| g.entry(MacroRow::plain))
            .collect()),
        Some("scalar_ops" | "reduce_ops") => Ok(Groups::parse
            .parse2(tokens)?
            .0
            .into_iter()
            .map(|g| g.entry(MacroRow::op))
            .collect()),
        _ => Ok(Vec::new()),
    }
}

/// `/// comment` `Name = 1, "text", …`
struct MacroRow {
    docs: Vec<String>,
    name: Ident,
    code: LitInt,
    text: LitStr,
    rest: Vec<String>,
}

impl Parse for MacroRow {
    fn parse(input: ParseStream<'_>) -> syn::Result<MacroRow> {
        // A macro that writes macros is handed the dollar for them.
        input.parse::<Option<Token![$]>>()?;
        let docs = docs(&input.call(Attribute::parse_outer)?);
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        let code = input.parse()?;
        input.parse::<Token![,]>()?;
        let text = input.parse()?;
        let mut rest = Vec::new();
        // Columns lie between commas, a result behind an arrow; what a column has in brackets is not the header's.
        while input.parse::<Option<Token![,]>>()?.is_some() || input.parse::<Option<Token![->]>>()?.is_some()
        {
            rest.push(if input.peek(Lit) {
                match input.parse()? {
                    Lit::Int(number) => number.base10_digits().to_owned(),
                    _ => String::new(),
                }
            } else {
                input.parse::<Ident>()?.to_string()
            });
            if input.peek(syn::token::Paren) {
                let inside;
                syn::parenthesized!(inside in input);
                Punctuated::<Lit, Token![,]>::parse_terminated(&inside)?;
            }
        }
        if input.peek(token::Brace) {
            // Columns that C does not see.
            let columns;
            braced!(columns in input);
            Punctuated::<FieldValue, Token![,]>::parse_terminated(&columns)?;
        }
        Ok(MacroRow {
            docs,
            name,
            code,
            text,
            rest,
        })
    }
}

impl MacroRow {
    fn plain(self) -> Row {
        Row {
            name: self.name.to_string(),
            docs: self.docs,
            code: self.code.base10_digits().into(),
        }
    }

    /// An op, with its name and signature in front of the comment: `exp(float): e^x.`
    fn op(self) -> Row {
        // A reduction has no column for the number of operands.
        let (count, rest) = match self.rest.split_first() {
            Some((count, rest)) if count == "Unary" => (1, rest),
            Some((count, rest)) if count == "Binary" || count == "Commuting" => (2, rest),
            Some((count, rest)) if count == "Ternary" => (3, rest),
            _ => (1, &self.rest[..]),
        };
        let of = |i: usize| rest.get(i).map_or("", String::as_str);
        let class = of(0).to_lowercase();
        let result = match of(1) {
            "Same" => String::new(),
            "Index" => " -> i64".into(),
            other => format!(" -> {}", other.to_lowercase()),
        };
        let mut args = vec![class; count];
        if self.name == "Select" {
            args[0] = "bool".into();
        }
        let signature = format!("{}({}){result}", self.text.value(), args.join(", "));
        let mut row = self.plain();
        if let Some(first) = row.docs.first_mut() {
            *first = format!("{signature}: {first}");
        }
        row
    }
}

/// `/// comment` `Name { rows }`, several times.
struct Groups(Vec<Group>);

struct Group {
    docs: Vec<String>,
    name: Ident,
    rows: Punctuated<MacroRow, Token![;]>,
}

impl Group {
    fn entry(self, row: fn(MacroRow) -> Row) -> Entry {
        Entry {
            name: self.name.to_string(),
            docs: self.docs,
            kind: Kind::Enum(self.rows.into_iter().map(row).collect()),
        }
    }
}

impl Parse for Groups {
    fn parse(input: ParseStream<'_>) -> syn::Result<Groups> {
        let mut groups = Vec::new();
        while !input.is_empty() {
            let docs = docs(&input.call(Attribute::parse_outer)?);
            let name = input.parse()?;
            let body;
            syn::braced!(body in input);
            let rows = body.parse_terminated(MacroRow::parse, Token![;])?;
            groups.push(Group { docs, name, rows });
        }
        Ok(Groups(groups))
    }
}

fn public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

fn is_count(ty: &syn::TypePath) -> bool {
    ["u16", "usize"].iter().any(|name| ty.path.is_ident(name))
}

fn repr(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident("repr"))
}

/// The lines of a comment, without the leading blank.
fn docs(attrs: &[Attribute]) -> Vec<String> {
    let mut lines = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("doc")) {
        if let Meta::NameValue(pair) = &attr.meta
            && let Expr::Lit(lit) = &pair.value
            && let Lit::Str(text) = &lit.lit
        {
            let text = text.value();
            lines.push(text.strip_prefix(' ').unwrap_or(&text).to_owned());
        }
    }
    lines
}

/// A code as C: a number, or one number shifted by another.
fn tokens(expr: &Expr) -> Result<String> {
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(number) => Ok(number.base10_digits().into()),
            _ => Err("a code is not a number".into()),
        },
        Expr::Binary(both) if matches!(both.op, syn::BinOp::Shl(_)) => {
            Ok(format!("{} << {}", tokens(&both.left)?, tokens(&both.right)?))
        }
        _ => Err("a code is neither a number nor a shift".into()),
    }
}
