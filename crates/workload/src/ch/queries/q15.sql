with revenue (supplier_no, total_revenue) as (
    select
        {supplier},
        sum(ol_amount)
    from
        order_line,
        stock
    where
        ol_i_id = s_i_id
        and ol_supply_w_id = s_w_id
        and ol_delivery_d >= {since}
        and ol_delivery_d < {until}
    group by
        {supplier}
)
select
    su_suppkey,
    su_name,
    su_address,
    su_phone,
    total_revenue
from
    supplier,
    revenue
where
    su_suppkey = supplier_no
    and total_revenue = (
        select
            max(total_revenue)
        from
            revenue
    )
order by
    su_suppkey
