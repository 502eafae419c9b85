//! Aligned columns: each as wide as its widest cell, but the last.

/// Rows under a heading; the last column is cut to the width of the screen.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>], width: usize) -> String {
    let columns = heading.len();
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            let title = heading.get(column).map_or(0, |title| title.chars().count());
            cells.chain([title]).max().unwrap_or_default()
        })
        .collect();
    let set = |cells: &[String]| {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate().take(columns) {
            if column + 1 == columns {
                let left = width.saturating_sub(line.chars().count());
                line.push_str(&super::text::short(cell, left.max(10)));
            } else {
                let wide = widths.get(column).copied().unwrap_or_default();
                line.push_str(&format!("{cell:<wide$}  "));
            }
        }
        line.trim_end().to_owned()
    };
    let title: Vec<String> = heading.iter().map(|title| (*title).to_owned()).collect();
    let mut text = super::style::dim(&set(&title));
    text.push('\n');
    for row in rows {
        text.push_str(&set(row));
        text.push('\n');
    }
    text
}
