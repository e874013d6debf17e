select
    sum(ol_amount) as revenue
from
    order_line
where
    ol_delivery_d >= {since}
    and ol_delivery_d < {until}
    and ol_quantity between 1 and 100000
