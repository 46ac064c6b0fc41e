-- The shop of the support desk: Fernhill Lamps. Loaded once, all or nothing, into an empty SQLite file.
BEGIN IMMEDIATE;

CREATE TABLE IF NOT EXISTS orders (
    id          TEXT PRIMARY KEY COLLATE NOCASE,
    email       TEXT NOT NULL COLLATE NOCASE,
    item        TEXT NOT NULL,
    total_cents INTEGER NOT NULL CHECK (total_cents > 0),
    status      TEXT NOT NULL CHECK (status IN ('processing', 'shipped', 'delivered', 'cancelled')),
    placed_on   TEXT NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS orders_by_email ON orders (email);

CREATE TABLE IF NOT EXISTS shipments (
    order_id TEXT PRIMARY KEY COLLATE NOCASE REFERENCES orders (id),
    carrier  TEXT NOT NULL,
    parcel   TEXT NOT NULL,
    status   TEXT NOT NULL CHECK (status IN ('in transit', 'delayed', 'delivered')),
    due_on   TEXT NOT NULL
) STRICT;

-- One row for each time the desk acted. The idempotency key makes acting twice count once.
CREATE TABLE IF NOT EXISTS refunds (
    idempotency_key TEXT PRIMARY KEY,
    order_id        TEXT NOT NULL COLLATE NOCASE REFERENCES orders (id),
    cents           INTEGER NOT NULL CHECK (cents > 0),
    reason          TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS answers (
    idempotency_key TEXT PRIMARY KEY,
    recipient       TEXT NOT NULL,
    subject         TEXT NOT NULL,
    body            TEXT NOT NULL
) STRICT;

INSERT OR IGNORE INTO orders (id, email, item, total_cents, status, placed_on) VALUES
    ('FH-1001', 'ana.lind@example.com',         'Brass desk lamp',               8900, 'shipped',    '2026-02-23'),
    ('FH-1002', 'tomasz.wrona@example.org',     'Linen lampshade, large',        4250, 'shipped',    '2026-02-24'),
    ('FH-1003', 'grace.obi@example.com',        'Reading lamp, black',           6900, 'shipped',    '2026-02-20'),
    ('FH-1004', 'grace.obi@example.com',        'LED bulbs E27, box of six',     2400, 'processing', '2026-03-01'),
    ('FH-1005', 'peter.novak@example.com',      'Clip-on lamp, white',           3900, 'processing', '2026-03-01'),
    ('FH-1006', 'lucia.ferri@example.org',      'Floor lamp, oak',              18900, 'shipped',    '2026-02-25'),
    ('FH-1007', 'sam.whitlock@example.com',     'Glass pendant, smoke',          6450, 'delivered',  '2026-02-16'),
    ('FH-1008', 'h.aalto@example.org',          'Chandelier, twelve arms',      34900, 'delivered',  '2026-02-12'),
    ('FH-1009', 'mei.tan@example.com',          'Bedside lamp, pair',            7800, 'processing', '2026-03-02'),
    ('FH-1010', 'owen.price@example.org',       'Garden lantern, copper',        5600, 'shipped',    '2026-02-26'),
    ('FH-1011', 'accounts@brightside.example.org', 'Office lamp, ten pieces',   74000, 'delivered',  '2026-02-09'),
    ('FH-1012', 'rosa.delgado@example.com',     'Wall light, matt white',        4700, 'shipped',    '2026-02-24'),
    ('FH-1013', 'rosa.delgado@example.com',     'Dimmer switch, double',         3200, 'processing', '2026-03-02'),
    ('FH-1014', 'ibrahim.kaya@example.com',     'Ceramic lamp base, blue',       5400, 'delivered',  '2026-02-17'),
    ('FH-1015', 'ibrahim.kaya@example.com',     'Ceramic lamp base, green',      5400, 'delivered',  '2026-02-17'),
    ('FH-1016', 'dana.fox@example.com',         'Arc lamp, steel',              21900, 'shipped',    '2026-01-28'),
    ('FH-1017', 'zoe.mueller@example.org',      'Paper lantern, round',          2900, 'shipped',    '2026-02-25'),
    ('FH-1018', 'helene.faure@example.org',     'Picture light, gold',           8300, 'delivered',  '2026-02-10'),
    ('FH-1019', 'javier.munoz@example.com',     'Table lamp, terracotta',        4990, 'delivered',  '2026-02-18'),
    ('FH-1020', 'nils.berg@example.org',        'Workbench light, two metres',  11900, 'shipped',    '2026-02-19'),
    ('FH-1021', 'jo.park@example.com',          'Night light, fox',              1990, 'delivered',  '2026-02-21'),
    ('FH-1022', 'yuki.sato@example.org',        'Rice paper floor lamp',         9700, 'shipped',    '2026-02-22'),
    ('FH-1023', 'bea.hart@example.com',         'Candle bulbs E14, box of ten',  3100, 'delivered',  '2026-02-14'),
    ('FH-1024', 'karl.otto@example.com',        'Magnifier lamp',                9900, 'cancelled',  '2026-02-11'),
    ('FH-1025', 'victor.reed@example.com',      'Spotlight rail, three heads',  12900, 'processing', '2026-03-03'),
    ('FH-1026', 'priya.nair@example.org',       'Fairy lights, twenty metres',   2600, 'delivered',  '2026-02-15'),
    ('FH-1027', 'noor.haddad@example.com',      'Mosaic table lamp',             7200, 'delivered',  '2026-02-13'),
    ('FH-1028', 'lena.brandt@example.org',      'Camping lantern, solar',        3500, 'shipped',    '2026-02-27'),
    ('FH-1029', 'marcus.cole@example.com',      'Bathroom mirror light',         8800, 'shipped',    '2026-02-26'),
    ('FH-1030', 'fay.sinclair@example.org',     'Piano lamp, brass',            15900, 'processing', '2026-03-04');

INSERT OR IGNORE INTO shipments (order_id, carrier, parcel, status, due_on) VALUES
    ('FH-1001', 'Postline',   'PL 4401 7782', 'in transit', '2026-03-05'),
    ('FH-1002', 'Postline',   'PL 4401 7790', 'in transit', '2026-03-05'),
    ('FH-1003', 'Swift & Co', 'SC-88120',     'delayed',    '2026-03-09'),
    ('FH-1006', 'Swift & Co', 'SC-88131',     'in transit', '2026-03-04'),
    ('FH-1007', 'Postline',   'PL 4401 7615', 'delivered',  '2026-02-20'),
    ('FH-1008', 'Swift & Co', 'SC-88077',     'delivered',  '2026-02-18'),
    ('FH-1010', 'Postline',   'PL 4401 7811', 'in transit', '2026-03-06'),
    ('FH-1011', 'Swift & Co', 'SC-88060',     'delivered',  '2026-02-13'),
    ('FH-1012', 'Postline',   'PL 4401 7795', 'in transit', '2026-03-04'),
    ('FH-1014', 'Postline',   'PL 4401 7640', 'delivered',  '2026-02-23'),
    ('FH-1015', 'Postline',   'PL 4401 7641', 'delivered',  '2026-02-23'),
    ('FH-1016', 'Swift & Co', 'SC-87990',     'delayed',    '2026-02-06'),
    ('FH-1017', 'Postline',   'PL 4401 7802', 'in transit', '2026-03-05'),
    ('FH-1018', 'Postline',   'PL 4401 7588', 'delivered',  '2026-02-16'),
    ('FH-1019', 'Swift & Co', 'SC-88102',     'delivered',  '2026-02-24'),
    ('FH-1020', 'Swift & Co', 'SC-88109',     'delayed',    '2026-03-10'),
    ('FH-1021', 'Postline',   'PL 4401 7699', 'delivered',  '2026-02-26'),
    ('FH-1022', 'Postline',   'PL 4401 7760', 'in transit', '2026-03-06'),
    ('FH-1023', 'Postline',   'PL 4401 7601', 'delivered',  '2026-02-19'),
    ('FH-1026', 'Postline',   'PL 4401 7610', 'delivered',  '2026-02-20'),
    ('FH-1027', 'Swift & Co', 'SC-88081',     'delivered',  '2026-02-19'),
    ('FH-1028', 'Postline',   'PL 4401 7820', 'in transit', '2026-03-06'),
    ('FH-1029', 'Swift & Co', 'SC-88140',     'delivered',  '2026-03-03');

PRAGMA user_version = 1;
COMMIT;
